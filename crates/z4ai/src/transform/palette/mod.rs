//! Few distinct elements: the section shares their table and the code of the indices. That is an entropy
//! coder's, or zstd's where indices repeat those before them, as in the second moments of an optimizer, whose
//! rows and columns each have few values.

mod decode;
mod encode;
mod fit;
mod model;
mod table;

pub(crate) use model::PaletteModel;

#[cfg(test)]
mod tests {
    use super::model::IndexCode;
    use super::*;
    use crate::Dtype;
    use crate::frame::wire::Reader;
    use crate::transform::{Contents, Position, Transform};

    #[test]
    fn indices_that_repeat_are_found_and_survive() {
        // Each row has two of the values, in an order that the next rows repeat.
        let element =
            |row: usize, column: usize| (row / 8 % 60 * 3) as u16 + (column * column / 7 % 2) as u16;
        let rows = (0..600).flat_map(|row| (0..100).map(move |column| element(row, column)));
        let bytes: Vec<u8> = rows.flat_map(u16::to_le_bytes).collect();
        let block = 40_000;
        let model = PaletteModel::fit(&bytes, Dtype::Bf16, block, 5).unwrap().unwrap();
        assert!(matches!(model.low, IndexCode::Repeating { .. }));
        let section = Contents { dtype: Some(Dtype::Bf16), length: bytes.len() };
        let mut described = Vec::new();
        model.write(&mut described).unwrap();
        let read = PaletteModel::read(&mut Reader::new(&described, "test"), section).unwrap();
        for part in bytes.chunks(block) {
            let (mut encoded, mut decoded) = (Vec::new(), vec![0; part.len()]);
            model.encode(part, Position::element(0), &mut encoded).unwrap();
            assert!(encoded.len() < part.len() / 20);
            let mut reader = Reader::new(&encoded, "test");
            read.decode(&mut reader, Position::element(0), &mut decoded).unwrap();
            reader.finish().unwrap();
            assert!(decoded == part);
            // Cut short, it is an error.
            let mut reader = Reader::new(&encoded[..encoded.len() - 1], "test");
            assert!(read.decode(&mut reader, Position::element(0), &mut decoded).is_err());
        }
    }
}
