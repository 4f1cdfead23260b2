//! One plane model for each byte of an element.

use crate::entropy::plane::PlaneModel;
use crate::error::{Error, Result};
use crate::frame::wire::Reader;
use crate::transform::{Contents, Position, Transform};

/// The widest element with planes.
pub(super) const MAX_WIDTH: usize = 8;

/// One model per byte of an element, least significant first.
#[derive(Debug)]
pub(crate) struct PlanesModel {
    pub(super) planes: Vec<PlaneModel>,
}

impl Transform for PlanesModel {
    const TAG: u8 = 3;
    const NAME: &'static str = "planes";

    fn read(reader: &mut Reader, section: Contents) -> Result<Self> {
        let width = section.width();
        if !(1..=MAX_WIDTH).contains(&width) {
            return Err(Error::corrupt(format!("byte planes of {width}-byte elements")));
        }
        Ok(Self { planes: (0..width).map(|_| PlaneModel::read(reader)).collect::<Result<_>>()? })
    }

    fn write(&self, out: &mut Vec<u8>) -> Result<()> {
        self.planes.iter().for_each(|plane| plane.write(out));
        Ok(())
    }

    fn encode(&self, bytes: &[u8], _: Position, out: &mut Vec<u8>) -> Result<()> {
        self.encode_block(bytes, out);
        Ok(())
    }

    fn decode(&self, reader: &mut Reader, _: Position, out: &mut [u8]) -> Result<()> {
        self.decode_block(reader, out)
    }

    fn parts(&self, reader: &mut Reader, elements: usize) -> Result<Vec<(String, usize)>> {
        let part = |(index, model): (usize, &PlaneModel)| {
            Ok((format!("byte {index}"), model.skip(reader, elements)?))
        };
        self.planes.iter().enumerate().map(part).collect()
    }
}
