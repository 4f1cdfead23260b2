//! Protobuf messages, written field by field, and the ONNX messages the tests are made of.

/// A message under construction.
#[derive(Clone, Default)]
pub struct Message(Vec<u8>);

impl Message {
    pub fn new() -> Self {
        Message::default()
    }

    fn raw_varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    pub fn varint(mut self, number: u64, value: i64) -> Self {
        self.raw_varint(number << 3);
        self.raw_varint(value as u64);
        self
    }

    pub fn bytes(self, number: u64, bytes: impl AsRef<[u8]>) -> Self {
        let length = bytes.as_ref().len() as u64;
        self.announced(number, length, bytes)
    }

    /// A length-delimited field whose length is whatever is said.
    pub fn announced(mut self, number: u64, length: u64, bytes: impl AsRef<[u8]>) -> Self {
        self.raw_varint(number << 3 | 2);
        self.raw_varint(length);
        self.0.extend_from_slice(bytes.as_ref());
        self
    }

    pub fn float(mut self, number: u64, value: f32) -> Self {
        self.raw_varint(number << 3 | 5);
        self.0.extend(value.to_le_bytes());
        self
    }

    pub fn double(mut self, number: u64, value: f64) -> Self {
        self.raw_varint(number << 3 | 1);
        self.0.extend(value.to_le_bytes());
        self
    }

    pub fn message(self, number: u64, message: &Message) -> Self {
        self.bytes(number, &message.0)
    }

    /// Bytes that need not be a field.
    pub fn garbage(mut self, bytes: &[u8]) -> Self {
        self.0.extend_from_slice(bytes);
        self
    }

    /// Repeated integers in one field.
    pub fn packed(self, number: u64, values: &[i64]) -> Self {
        let mut inner = Message::new();
        values.iter().for_each(|value| inner.raw_varint(*value as u64));
        self.bytes(number, inner.0)
    }

    pub fn build(&self) -> Vec<u8> {
        self.0.clone()
    }
}

/// A tensor without data.
pub fn tensor(name: &str, data_type: i64, dimensions: &[i64]) -> Message {
    let shape = dimensions.iter().fold(Message::new(), |message, &dimension| message.varint(1, dimension));
    shape.varint(2, data_type).bytes(8, name)
}

/// A tensor with raw bytes.
pub fn raw(name: &str, data_type: i64, dimensions: &[i64], bytes: &[u8]) -> Message {
    tensor(name, data_type, dimensions).bytes(9, bytes)
}

/// Three float32 values.
pub fn three_floats(name: &str) -> Message {
    let bytes: Vec<u8> = [1f32, 2.0, 3.0].iter().flat_map(|value| value.to_le_bytes()).collect();
    raw(name, 1, &[3], &bytes)
}

/// A node with one attribute.
pub fn node(operator: &str, output: &str, attribute: &Message) -> Message {
    Message::new().bytes(2, output).bytes(4, operator).message(5, attribute)
}

/// A graph of initializers.
pub fn graph(initializers: &[Message]) -> Message {
    initializers.iter().fold(Message::new(), |graph, tensor| graph.message(5, tensor))
}

/// A key and a value.
pub fn pair(key: &str, value: &str) -> Message {
    Message::new().bytes(1, key).bytes(2, value)
}

/// A model around a graph.
pub fn model(graph: &Message) -> Message {
    let opset = Message::new().bytes(1, "").varint(2, 21);
    Message::new().varint(1, 10).bytes(2, "tests").message(7, graph).message(8, &opset)
}

/// A model of initializers alone.
pub fn model_of(initializers: &[Message]) -> Vec<u8> {
    model(&graph(initializers)).build()
}

/// A tensor whose data is in another file.
pub fn external(name: &str, dimensions: &[i64], entries: &[(&str, &str)]) -> Message {
    entries
        .iter()
        .fold(tensor(name, 1, dimensions), |message, (key, value)| message.message(13, &pair(key, value)))
        .varint(14, 1)
}
