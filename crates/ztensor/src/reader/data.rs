//! Tensors that were read.

use std::borrow::Cow;

use crate::error::{Error, Result};
use crate::tensor::{Attributes, Element, ElementType, Layout, Shape};

/// A tensor of any layout, read.
#[derive(Clone, Debug)]
pub struct TensorData<'a> {
    /// The logical shape.
    pub shape: Shape,
    /// How the components make one tensor.
    pub layout: Layout,
    /// The object's own metadata.
    pub attributes: Attributes,
    /// The components with their roles.
    pub components: Vec<(String, ComponentData<'a>)>,
}

/// One component, read.
#[derive(Clone, Debug)]
pub struct ComponentData<'a> {
    /// What the elements are.
    pub element: ElementType,
    /// The elements: little-endian, row-major.
    pub bytes: Cow<'a, [u8]>,
}

impl TensorData<'_> {
    /// The component of a role.
    pub fn component(&self, role: &str) -> Option<&ComponentData<'_>> {
        self.components.iter().find(|(name, _)| name == role).map(|(_, component)| component)
    }

    /// The same tensor, independent of the file.
    pub fn into_owned(self) -> TensorData<'static> {
        let own = |component: ComponentData<'_>| ComponentData {
            element: component.element,
            bytes: Cow::Owned(component.bytes.into_owned()),
        };
        TensorData {
            shape: self.shape,
            layout: self.layout,
            attributes: self.attributes,
            components: self.components.into_iter().map(|(role, component)| (role, own(component))).collect(),
        }
    }
}

impl ComponentData<'_> {
    /// The elements as values of a Rust type.
    pub fn to_vec<T: Element>(&self) -> Result<Vec<T>> {
        if self.element != ElementType::plain(T::DTYPE) {
            return Err(Error::mismatch(format!("the component holds {}, not {}", self.element, T::DTYPE)));
        }
        Ok(bytemuck::allocation::pod_collect_to_vec(&self.bytes))
    }
}
