//! What every parser's fuzz target does with its bytes: open them, and decode every tensor of a moderate size.

use ztensor::Reader;

/// Larger tensors are legal, but decoding them tells nothing new and slows the search.
const LARGEST: u64 = 16 << 20;

/// Opens a file and decodes what is in it.
pub fn read(bytes: &[u8]) {
    let Ok(reader) = Reader::from_bytes(bytes.to_vec()) else { return };
    for (name, object) in reader.objects() {
        for (role, component) in &object.components {
            if component.length <= LARGEST {
                let _ = reader.component_bytes(name, role);
            }
        }
        if object.decoded_length() <= LARGEST / 16 {
            let _ = reader.check_sparse(name);
            let _ = reader.dequantize(name);
        }
    }
}
