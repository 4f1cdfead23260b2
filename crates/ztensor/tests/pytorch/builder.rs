//! Makes PyTorch files, right ones and wrong ones: pickle expressions that concatenate, and the two containers around them.

/// A piece of a pickle that leaves one value on the stack.
pub type Expression = Vec<u8>;

pub fn none() -> Expression {
    b"N".to_vec()
}

pub fn boolean(value: bool) -> Expression {
    vec![if value { 0x88 } else { 0x89 }]
}

pub fn integer(value: i64) -> Expression {
    [&[0x8A, 8][..], &value.to_le_bytes()].concat()
}

pub fn float(value: f64) -> Expression {
    [&b"G"[..], &value.to_be_bytes()].concat()
}

pub fn text(value: &str) -> Expression {
    [&b"X"[..], &(value.len() as u32).to_le_bytes(), value.as_bytes()].concat()
}

pub fn global(module: &str, name: &str) -> Expression {
    format!("c{module}\n{name}\n").into_bytes()
}

fn marked(items: &[Expression], end: u8) -> Expression {
    [b"(".to_vec(), items.concat(), vec![end]].concat()
}

pub fn tuple(items: &[Expression]) -> Expression {
    marked(items, b't')
}

pub fn list(items: &[Expression]) -> Expression {
    marked(items, b'l')
}

pub fn dict(entries: &[(&str, Expression)]) -> Expression {
    let items: Vec<Expression> = entries.iter().flat_map(|(key, value)| [text(key), value.clone()]).collect();
    marked(&items, b'd')
}

pub fn numbers(values: &[i64]) -> Expression {
    tuple(&values.iter().copied().map(integer).collect::<Vec<_>>())
}

/// A call of a global with arguments.
pub fn call(module: &str, name: &str, arguments: &[Expression]) -> Expression {
    [global(module, name), tuple(arguments), b"R".to_vec()].concat()
}

/// An object of a class with a state.
pub fn object(module: &str, class: &str, state: Expression) -> Expression {
    [global(module, class), b")\x81".to_vec(), state, b"b".to_vec()].concat()
}

pub fn storage(class: &str, key: &str, count: i64) -> Expression {
    let reference = [text("storage"), global("torch", class), text(key), text("cpu"), integer(count)];
    [tuple(&reference), b"Q".to_vec()].concat()
}

/// A storage reference of the legacy stream, which has one more item.
pub fn legacy_storage(class: &str, key: &str, count: i64, part: Expression) -> Expression {
    let reference = [text("storage"), global("torch", class), text(key), text("cpu"), integer(count), part];
    [tuple(&reference), b"Q".to_vec()].concat()
}

/// `_rebuild_tensor_v2` over a storage.
pub fn tensor(storage: Expression, offset: i64, shape: &[i64], strides: &[i64]) -> Expression {
    let hooks = call("collections", "OrderedDict", &[]);
    let arguments = [storage, integer(offset), numbers(shape), numbers(strides), boolean(false), hooks];
    call("torch._utils", "_rebuild_tensor_v2", &arguments)
}

/// A contiguous tensor of 32-bit floats over the whole of storage `key`.
pub fn floats(key: &str, shape: &[i64]) -> Expression {
    let mut strides = vec![1; shape.len()];
    for position in (1..shape.len()).rev() {
        strides[position - 1] = strides[position] * shape[position];
    }
    tensor(storage("FloatStorage", key, shape.iter().product()), 0, shape, &strides)
}

/// `count` floats counting up from zero.
pub fn counting(count: usize) -> Vec<u8> {
    (0..count).flat_map(|value| (value as f32).to_le_bytes()).collect()
}

/// A whole pickle.
pub fn document(root: Expression) -> Vec<u8> {
    [&[0x80, 2][..], &root, b"."].concat()
}

/// A zip archive of stored members.
pub fn zip(members: &[(&str, &[u8])]) -> Vec<u8> {
    let (mut file, mut directory) = (Vec::new(), Vec::new());
    for (name, content) in members {
        let sizes = [(content.len() as u32).to_le_bytes(), (content.len() as u32).to_le_bytes()].concat();
        let offset = (file.len() as u32).to_le_bytes();
        let name_length = (name.len() as u16).to_le_bytes();
        let shared = [&[0; 8][..], &[0; 4], &sizes, &name_length, &[0, 0]].concat();
        file.extend([b"PK\x03\x04\x0a\x00", &shared[..], name.as_bytes(), content].concat());
        directory.extend(
            [b"PK\x01\x02\x0a\x00\x0a\x00", &shared[..], &[0; 10], &offset, name.as_bytes()].concat(),
        );
    }
    let count = (members.len() as u16).to_le_bytes();
    let (start, length) = ((file.len() as u32).to_le_bytes(), (directory.len() as u32).to_le_bytes());
    file.extend(directory);
    file.extend([&b"PK\x05\x06\0\0\0\0"[..], &count, &count, &length, &start, &[0, 0]].concat());
    file
}

/// The archive of `torch.save` around a value and its storages.
pub fn archive(root: Expression, storages: &[(&str, &[u8])]) -> Vec<u8> {
    archive_in("little", root, storages)
}

pub fn archive_in(byte_order: &str, root: Expression, storages: &[(&str, &[u8])]) -> Vec<u8> {
    let pickle = document(root);
    let names: Vec<String> = storages.iter().map(|(key, _)| format!("model/data/{key}")).collect();
    let mut members: Vec<(&str, &[u8])> =
        vec![("model/data.pkl", &pickle), ("model/byteorder", byte_order.as_bytes())];
    members.extend(names.iter().map(String::as_str).zip(storages.iter().map(|(_, content)| *content)));
    members.push(("model/version", b"3\n"));
    zip(&members)
}

/// The stream that came before the archive. Storages are keys, announced counts and bytes.
pub fn legacy(root: Expression, storages: &[(&str, i64, &[u8])]) -> Vec<u8> {
    let magic = [&[0x8A, 10][..], b"\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19"].concat();
    let keys: Vec<Expression> = storages.iter().map(|(key, _, _)| text(key)).collect();
    let heads = [magic, integer(1001), dict(&[("little_endian", boolean(true))]), root, list(&keys)];
    let mut file: Vec<u8> = heads.into_iter().flat_map(document).collect();
    for (_, count, content) in storages {
        file.extend([&count.to_le_bytes()[..], content].concat());
    }
    file
}
