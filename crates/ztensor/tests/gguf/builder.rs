//! Makes GGUF files, right ones and wrong ones: every number can be set to what a writer would never write.

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Order {
    Little,
    Big,
}

/// One metadata value as it is stored.
pub enum Meta<'a> {
    U8(u8),
    I8(i8),
    U16(u16),
    I16(i16),
    U32(u32),
    I32(i32),
    F32(f32),
    Bool(u8),
    Text(&'a [u8]),
    U64(u64),
    I64(i64),
    F64(f64),
    /// Item type, announced count, items.
    Array(u32, u64, Vec<Meta<'a>>),
    /// A type number without a value.
    Type(u32),
}

pub struct Tensor {
    name: Vec<u8>,
    /// As stored: innermost first.
    dimensions: Vec<u64>,
    type_number: u32,
    data: Vec<u8>,
    /// Where the header says the data is, if that is not where it is.
    offset: Option<u64>,
}

pub struct Builder {
    pub order: Order,
    pub version: u32,
    pub alignment: usize,
    pub pairs: Vec<u8>,
    pub pair_count: u64,
    pub tensors: Vec<Tensor>,
    /// Announced instead of the number of tensors.
    pub tensor_count: Option<u64>,
    /// Whether padding follows the last tensor.
    pub last_padding: bool,
}

impl Builder {
    pub fn new(order: Order) -> Self {
        Builder {
            order,
            version: 3,
            alignment: 32,
            pairs: Vec::new(),
            pair_count: 0,
            tensors: Vec::new(),
            tensor_count: None,
            last_padding: true,
        }
    }

    pub fn pair(mut self, key: &str, value: Meta<'_>) -> Self {
        self = self.raw_key(key.as_bytes());
        self.put_value(&value, true);
        self
    }

    pub fn raw_key(mut self, key: &[u8]) -> Self {
        self.pair_count += 1;
        let mut bytes = std::mem::take(&mut self.pairs);
        self.put_string(&mut bytes, key);
        self.pairs = bytes;
        self
    }

    pub fn tensor(self, name: &str, dimensions: &[u64], type_number: u32, data: &[u8]) -> Self {
        self.raw_tensor(name.as_bytes(), dimensions, type_number, data, None)
    }

    pub fn raw_tensor(
        mut self,
        name: &[u8],
        dimensions: &[u64],
        type_number: u32,
        data: &[u8],
        offset: Option<u64>,
    ) -> Self {
        let (name, dimensions, data) = (name.to_vec(), dimensions.to_vec(), data.to_vec());
        self.tensors.push(Tensor { name, dimensions, type_number, data, offset });
        self
    }

    pub fn build(&self) -> Vec<u8> {
        let mut file = b"GGUF".to_vec();
        self.u32(&mut file, self.version);
        self.u64(&mut file, self.tensor_count.unwrap_or(self.tensors.len() as u64));
        self.u64(&mut file, self.pair_count);
        file.extend(&self.pairs);
        let mut data = Vec::new();
        for tensor in &self.tensors {
            self.put_string(&mut file, &tensor.name);
            self.u32(&mut file, tensor.dimensions.len() as u32);
            for &dimension in &tensor.dimensions {
                self.u64(&mut file, dimension);
            }
            self.u32(&mut file, tensor.type_number);
            data.resize(data.len().next_multiple_of(self.alignment), 0);
            self.u64(&mut file, tensor.offset.unwrap_or(data.len() as u64));
            data.extend(&tensor.data);
        }
        if self.last_padding {
            data.resize(data.len().next_multiple_of(self.alignment), 0);
        }
        if !data.is_empty() {
            file.resize(file.len().next_multiple_of(self.alignment), 0);
        }
        file.extend(data);
        file
    }

    fn put_value(&mut self, value: &Meta<'_>, with_type: bool) {
        let mut bytes = std::mem::take(&mut self.pairs);
        self.encode(&mut bytes, value, with_type);
        self.pairs = bytes;
    }

    fn encode(&self, to: &mut Vec<u8>, value: &Meta<'_>, with_type: bool) {
        let number = match value {
            Meta::U8(_) => 0,
            Meta::I8(_) => 1,
            Meta::U16(_) => 2,
            Meta::I16(_) => 3,
            Meta::U32(_) => 4,
            Meta::I32(_) => 5,
            Meta::F32(_) => 6,
            Meta::Bool(_) => 7,
            Meta::Text(_) => 8,
            Meta::Array(..) => 9,
            Meta::U64(_) => 10,
            Meta::I64(_) => 11,
            Meta::F64(_) => 12,
            Meta::Type(number) => *number,
        };
        if with_type {
            self.u32(to, number);
        }
        match value {
            Meta::U8(value) | Meta::Bool(value) => to.push(*value),
            Meta::I8(value) => to.push(value.cast_unsigned()),
            Meta::U16(value) => self.put(to, &value.to_le_bytes()),
            Meta::I16(value) => self.put(to, &value.to_le_bytes()),
            Meta::U32(value) => self.put(to, &value.to_le_bytes()),
            Meta::I32(value) => self.put(to, &value.to_le_bytes()),
            Meta::F32(value) => self.put(to, &value.to_le_bytes()),
            Meta::U64(value) => self.put(to, &value.to_le_bytes()),
            Meta::I64(value) => self.put(to, &value.to_le_bytes()),
            Meta::F64(value) => self.put(to, &value.to_le_bytes()),
            Meta::Text(text) => self.put_string(to, text),
            Meta::Array(item_type, count, items) => {
                self.u32(to, *item_type);
                self.u64(to, *count);
                for item in items {
                    self.encode(to, item, false);
                }
            }
            Meta::Type(_) => {}
        }
    }

    fn put_string(&self, to: &mut Vec<u8>, text: &[u8]) {
        self.u64(to, text.len() as u64);
        to.extend(text);
    }

    fn u32(&self, to: &mut Vec<u8>, value: u32) {
        self.put(to, &value.to_le_bytes());
    }

    fn u64(&self, to: &mut Vec<u8>, value: u64) {
        self.put(to, &value.to_le_bytes());
    }

    fn put(&self, to: &mut Vec<u8>, little: &[u8]) {
        match self.order {
            Order::Little => to.extend(little),
            Order::Big => to.extend(little.iter().rev()),
        }
    }
}

/// Bytes that look random and are the same everywhere.
pub fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    (0..length).map(|_| next()).collect()
}
