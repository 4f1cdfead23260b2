//! `SparseTensorProto`: values and where they stand, either as coordinates (one row per value) or as row-major positions. Both become
//! the coordinate layout with one list per dimension, the first as a strided view over the file.

use std::borrow::Cow;

use super::external::ExternalFiles;
use super::tensor::{Tensor, dimensions};
use super::wire::Wire;
use crate::error::{Error, Result};
use crate::formats::Input;
use crate::index::{Component, Components, Data, Object, Span, Strided, Unraveled};
use crate::tensor::{Attributes, DType, Layout, Shape};

/// The number of the data type that indices must have.
const INT64: u64 = 7;

/// A sparse tensor message.
pub(super) struct Sparse {
    pub values: Tensor,
    indices: Tensor,
    shape: Vec<u64>,
    offset: u64,
}

impl Sparse {
    pub(super) fn parse<'a>(wire: &'a Wire<'a>, span: Span) -> Result<Sparse> {
        let mut sparse = Sparse {
            values: Tensor::default(),
            indices: Tensor::default(),
            shape: Vec::new(),
            offset: span.offset,
        };
        let mut message = wire.message_in(span);
        while let Some(field) = message.next()? {
            match field.number {
                1 => sparse.values = Tensor::parse(wire, field.bytes()?)?,
                2 => sparse.indices = Tensor::parse(wire, field.bytes()?)?,
                3 => dimensions(wire, field.value, &mut sparse.shape)
                    .ok_or_else(|| field.wrong_type("a list of up to 64 dimensions"))?,
                _ => {}
            }
        }
        Ok(sparse)
    }

    /// The tensor as an object of the coordinate layout.
    pub(super) fn object<'a>(
        self,
        wire: &'a Wire<'a>,
        input: &mut Input,
        files: &mut ExternalFiles,
    ) -> Result<Object> {
        let broken = |message: &str| Error::malformed(message).with_offset(self.offset);
        let values = self.values.component(wire, input, files)?;
        let shape = Shape::from(self.shape);
        let rank = shape.len();
        if rank == 0 || rank > Shape::MOST_DIMENSIONS {
            return Err(broken("a sparse tensor must have 1 to 64 dimensions"));
        }
        let elements = shape.elements().ok_or_else(|| broken("the shape of a sparse tensor overflows"))?;
        let &[count] = &*self.values.shape() else {
            return Err(broken("the values of a sparse tensor must be a list"));
        };
        if count > elements {
            return Err(broken("a sparse tensor has more values than elements"));
        }
        if self.indices.data_type != INT64 {
            return Err(broken("the indices of a sparse tensor must be int64"));
        }
        let indices = self.indices.component(wire, input, files)?;
        let coordinates = match *self.indices.shape() {
            [rows, columns] if rows == count && columns == rank as u64 => transposed(indices, count, columns),
            [positions] if positions == count => match rank {
                1 => indices.data,
                _ => Data::Unraveled(Box::new(Unraveled { shape: shape.clone(), inner: indices.data })),
            },
            _ => return Err(broken("the indices of a sparse tensor do not match its values and dimensions")),
        };
        let length = count
            .checked_mul(8 * rank as u64)
            .ok_or_else(|| broken("the indices of a sparse tensor overflow"))?;
        Ok(Object {
            shape,
            layout: Layout::SparseCoo,
            attributes: Attributes::new(),
            components: Components::from_vec(vec![
                (Cow::Borrowed("values"), values),
                (Cow::Borrowed("coords"), Component::encoded(DType::U64, coordinates, length)),
            ]),
        })
    }
}

/// Rows of coordinates seen as one list per dimension.
fn transposed(rows: Component, count: u64, rank: u64) -> Data {
    if rank == 1 || count <= 1 {
        return rows.data;
    }
    Data::Strided(Box::new(Strided {
        inner: rows.data,
        inner_length: rows.length,
        offset: 0,
        shape: Shape::from([rank, count]),
        strides: vec![8, 8 * rank as i64],
    }))
}
