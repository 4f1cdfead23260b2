//! The walk through graphs, nodes and functions, and the names tensors get on the way. A value has the name the graph gives it; inside a
//! subgraph or a function it stands behind the path to it: `<node>/<attribute>/<name>`, where a node goes by its first output.

use super::constant::{self, Constant};
use super::external::{ExternalFiles, text_pair};
use super::sparse::Sparse;
use super::tensor::Tensor;
use super::wire::Wire;
use crate::error::{Error, Kind, Result};
use crate::formats::Input;
use crate::index::{Index, Object, Span};
use crate::tensor::{Attributes, Value};

/// Names may take this much memory beyond a small multiple of the file: a long name around many tensors must not multiply.
const NAME_ALLOWANCE: u64 = 16 << 20;

pub(super) struct Walk<'a> {
    wire: &'a Wire<'a>,
    input: &'a mut Input,
    index: &'a mut Index,
    external: ExternalFiles,
    /// The path to the graph at hand, with a slash behind each part.
    path: String,
    names_left: u64,
}

/// A node as its attributes see it.
struct Node {
    label: String,
    is_constant: bool,
}

impl<'a> Walk<'a> {
    pub(super) fn new(wire: &'a Wire<'a>, input: &'a mut Input, index: &'a mut Index) -> Self {
        let names_left = input.source().len().saturating_mul(4).saturating_add(NAME_ALLOWANCE);
        Walk { wire, input, index, external: ExternalFiles::default(), path: String::new(), names_left }
    }

    /// Notes a property of the model.
    pub(super) fn attribute(&mut self, key: &str, value: impl Into<Value>) {
        self.index.attributes.insert(key.to_owned(), value.into());
    }

    /// `GraphProto`.
    pub(super) fn graph(&mut self, span: Span, depth: usize) -> Result<()> {
        if depth > self.input.budget.limits().depth {
            return Err(Error::new(Kind::Limit, format!("graphs are nested more than {} deep", depth - 1))
                .with_offset(span.offset));
        }
        let (mut nodes, mut initializers) = (0u64, 0u64);
        let mut message = self.wire.message_in(span);
        while let Some(field) = message.next()? {
            match field.number {
                1 => {
                    self.node(field.bytes()?, nodes, depth)?;
                    nodes += 1;
                }
                2 if depth == 0 && self.path.is_empty() => {
                    let name = self.wire.text(field.bytes()?)?;
                    self.attribute("graph_name", name);
                }
                5 => {
                    let tensor = Tensor::parse(self.wire, field.bytes()?)?;
                    let name = self.own_name(tensor.name, "initializer", initializers)?;
                    self.tensor(name, &tensor)?;
                    initializers += 1;
                }
                15 => {
                    let sparse = Sparse::parse(self.wire, field.bytes()?)?;
                    let name = self.own_name(sparse.values.name, "sparse_initializer", initializers)?;
                    self.sparse(name, sparse)?;
                    initializers += 1;
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// `FunctionProto`, whose path is `<domain>:<name>` with the overload, if any, behind another colon.
    pub(super) fn function(&mut self, span: Span, position: u64) -> Result<()> {
        let (mut name, mut domain, mut overload) = (None, None, None);
        let mut message = self.wire.message_in(span);
        while let Some(field) = message.next()? {
            match field.number {
                1 => name = Some(field.bytes()?),
                10 => domain = Some(field.bytes()?),
                13 => overload = Some(field.bytes()?),
                _ => {}
            }
        }
        let domain = domain.map_or(Ok(String::new()), |span| self.wire.text(span))?;
        let mut label = format!("{domain}:{}", self.own_name(name, "function", position)?);
        if let Some(overload) = overload.filter(|span| span.length > 0) {
            label = format!("{label}:{}", self.wire.text(overload)?);
        }
        self.within(&label, |walk| {
            let mut message = walk.wire.message_in(span);
            let mut nodes = 0;
            while let Some(field) = message.next()? {
                match field.number {
                    7 => {
                        walk.node(field.bytes()?, nodes, 0)?;
                        nodes += 1;
                    }
                    // Default values of the function's own attributes.
                    11 => walk.node_attribute(field.bytes()?, None, 0)?,
                    _ => {}
                }
            }
            Ok(())
        })
    }

    /// `TrainingInfoProto`, with its two graphs.
    pub(super) fn training(&mut self, span: Span, position: u64) -> Result<()> {
        let mut message = self.wire.message_in(span);
        while let Some(field) = message.next()? {
            let part = match field.number {
                1 => "initialization",
                2 => "algorithm",
                _ => continue,
            };
            let graph = field.bytes()?;
            self.within(&format!("training_info[{position}]/{part}"), |walk| walk.graph(graph, 0))?;
        }
        Ok(())
    }

    /// `NodeProto`. Its fields may come in any order, so what names it is found before its attributes are read.
    fn node(&mut self, span: Span, position: u64, depth: usize) -> Result<()> {
        let (mut output, mut name) = (None, None);
        let (mut attributes, mut is_constant, mut foreign) = (false, false, false);
        let mut message = self.wire.message_in(span);
        while let Some(field) = message.next()? {
            match field.number {
                2 if output.is_none() => output = Some(field.bytes()?).filter(|span| span.length > 0),
                3 => name = Some(field.bytes()?).filter(|span| span.length > 0),
                4 => is_constant = self.wire.says(field.bytes()?, "Constant")?,
                5 => attributes = true,
                7 => {
                    let domain = field.bytes()?;
                    foreign = domain.length > 0 && !self.wire.says(domain, "ai.onnx")?;
                }
                _ => {}
            }
        }
        if !attributes {
            return Ok(());
        }
        let is_constant = is_constant && !foreign;
        let mut node: Option<Node> = None;
        let mut message = self.wire.message_in(span);
        while let Some(field) = message.next()? {
            if field.number != 5 {
                continue;
            }
            let attribute = field.bytes()?;
            if !is_constant && !self.may_hold_tensors(attribute)? {
                continue;
            }
            let node = match &mut node {
                Some(node) => node,
                None => node
                    .insert(Node { label: self.own_name(output.or(name), "node", position)?, is_constant }),
            };
            self.node_attribute(attribute, Some(node), depth)?;
        }
        Ok(())
    }

    /// Whether an attribute has tensors or graphs; most have not, and cost no more than this look.
    fn may_hold_tensors(&self, span: Span) -> Result<bool> {
        let mut message = self.wire.message_in(span);
        while let Some(field) = message.next()? {
            if matches!(field.number, 5 | 6 | 10 | 11 | 22 | 23) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// `AttributeProto` of a node, or of a function when there is no node.
    fn node_attribute(&mut self, span: Span, node: Option<&Node>, depth: usize) -> Result<()> {
        let mut name = None;
        let mut message = self.wire.message_in(span);
        while let Some(field) = message.next()? {
            if field.number == 1 {
                name = Some(field.bytes()?);
            }
        }
        let name = name.map_or(Ok(String::new()), |span| self.wire.text(span))?;
        if let Some(Node { label, is_constant: true }) = node {
            match constant::read(self.wire, &name, span, &mut self.input.budget)? {
                Constant::Tensor(span) => {
                    return self.tensor(label.clone(), &Tensor::parse(self.wire, span)?);
                }
                Constant::Sparse(span) => {
                    return self.sparse(label.clone(), Sparse::parse(self.wire, span)?);
                }
                Constant::Numbers(object) => return self.insert(label.clone(), Ok(object), span.offset),
                Constant::Unread(reason) => {
                    return self.insert(label.clone(), Err(Error::unsupported(reason)), span.offset);
                }
                Constant::Nothing if self.may_hold_tensors(span)? => {}
                Constant::Nothing => return Ok(()),
            }
        }
        let local = node.map_or_else(|| name.clone(), |node| format!("{}/{name}", node.label));
        let (mut tensors, mut graphs) = (0u64, 0u64);
        let mut message = self.wire.message_in(span);
        while let Some(field) = message.next()? {
            match field.number {
                5 => self.tensor(local.clone(), &Tensor::parse(self.wire, field.bytes()?)?)?,
                22 => self.sparse(local.clone(), Sparse::parse(self.wire, field.bytes()?)?)?,
                6 => self.within(&local, |walk| walk.graph(field.bytes()?, depth + 1))?,
                10 => {
                    self.tensor(format!("{local}[{tensors}]"), &Tensor::parse(self.wire, field.bytes()?)?)?
                }
                23 => {
                    self.sparse(format!("{local}[{tensors}]"), Sparse::parse(self.wire, field.bytes()?)?)?
                }
                11 => {
                    self.within(&format!("{local}[{graphs}]"), |walk| walk.graph(field.bytes()?, depth + 1))?;
                    graphs += 1;
                }
                _ => {}
            }
            tensors += u64::from(matches!(field.number, 10 | 23));
        }
        Ok(())
    }

    /// Does something with one more part on the path.
    fn within(&mut self, part: &str, action: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        let length = self.path.len();
        self.input.budget.charge(part.len() as u64)?;
        self.path.push_str(part);
        self.path.push('/');
        action(self)?;
        self.path.truncate(length);
        Ok(())
    }

    /// The name in the file, or one by position for what has none.
    fn own_name(&self, name: Option<Span>, kind: &str, position: u64) -> Result<String> {
        match name.filter(|span| span.length > 0) {
            Some(span) => self.wire.text(span),
            None => Ok(format!("{kind}[{position}]")),
        }
    }

    fn tensor(&mut self, local: String, tensor: &Tensor) -> Result<()> {
        let object = tensor.component(self.wire, self.input, &mut self.external).and_then(|component| {
            let mut object = Object::dense(tensor.shape(), component);
            self.describe(tensor, &mut object.attributes)?;
            Ok(object)
        });
        self.insert(local, object, tensor.offset)
    }

    fn sparse(&mut self, local: String, sparse: Sparse) -> Result<()> {
        let offset = sparse.values.offset;
        let object = sparse.object(self.wire, self.input, &mut self.external);
        self.insert(local, object, offset)
    }

    fn describe(&self, tensor: &Tensor, attributes: &mut Attributes) -> Result<()> {
        if let Some(span) = tensor.description.filter(|span| span.length > 0) {
            attributes.insert("doc_string".to_owned(), Value::Text(self.wire.text(span)?));
        }
        for &entry in &tensor.properties {
            let (key, value) = text_pair(self.wire, entry)?;
            attributes.insert(key, Value::Text(value));
        }
        Ok(())
    }

    /// Adds a tensor under the path at hand, or notes why it is not read.
    fn insert(&mut self, local: String, object: Result<Object>, offset: u64) -> Result<()> {
        let name = if self.path.is_empty() { local } else { format!("{}{local}", self.path) };
        self.input.budget.charge_object()?;
        self.input.budget.charge((size_of::<Object>() + name.len()) as u64)?;
        self.names_left = self.names_left.checked_sub(name.len() as u64).ok_or_else(|| {
            Error::new(Kind::Limit, "the names of nested tensors are out of proportion to the file")
                .with_offset(offset)
        })?;
        match object {
            Ok(object) => self.index.insert(name, object).map_err(|error| error.with_offset(offset)),
            Err(error) if error.kind() == Kind::Unsupported => {
                self.index.skip(name, error.message());
                Ok(())
            }
            Err(error) => Err(error.with_tensor(&name)),
        }
    }
}
