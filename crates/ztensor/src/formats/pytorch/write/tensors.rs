//! Tensors in a pickle: the calls that rebuild them, over storages that stand beside the pickle; and NumPy's arrays and numbers, which stand in it.

use std::collections::HashMap;

use super::super::pickle::opcode::*;
use super::super::quantized;
use super::super::types::{self, Scalar};
use super::pickler::Pickler;
use super::values::Bytes;
use super::{WriteEntry, WritePart};
use crate::error::{Error, Hints, Kind, Result};
use crate::tensor::{Compressed, DType, ElementType, Known, Layout, Value};

/// The tensors of a file and what the pickle has of them so far.
pub(super) struct Tensors<'e> {
    entries: HashMap<&'e str, &'e WriteEntry<'e>>,
    /// Tensors and parameters in the pickle's memo.
    recalled: HashMap<(&'e str, Option<bool>), u32>,
    /// Tensors with attributes, by their text.
    attributed: HashMap<String, u32>,
    /// The numbers under which storages stand in the archive.
    storages: HashMap<usize, usize>,
}

/// How a tensor is rebuilt.
#[derive(Clone, Copy, Default)]
pub(super) struct Form {
    /// Gradients are kept for it.
    pub(super) trained: bool,
    /// Function, class and arguments stand there one after the other, for another function to call.
    pub(super) typed: bool,
}

impl Form {
    fn begin(self, pickler: &mut Pickler, function: &str) {
        pickler.global("torch._utils", function);
        if self.typed {
            pickler.global("torch", "Tensor");
        }
    }

    fn end(self, pickler: &mut Pickler) {
        if !self.typed {
            pickler.op(REDUCE);
        }
    }
}

impl<'e> Tensors<'e> {
    pub(super) fn new(entries: &'e [WriteEntry<'e>]) -> Self {
        Tensors {
            entries: entries.iter().map(|entry| (entry.name.as_ref(), entry)).collect(),
            recalled: HashMap::new(),
            attributed: HashMap::new(),
            storages: HashMap::new(),
        }
    }

    /// The number in the archive of a storage that the pickle refers to.
    pub(super) fn storage_number(&self, storage: usize) -> Option<usize> {
        self.storages.get(&storage).copied()
    }

    fn entry(&self, name: &str) -> Result<&'e WriteEntry<'e>> {
        self.entries.get(name).copied().ok_or_else(|| {
            Error::malformed(format!("the tree names \"{name}\", which the file does not hold"))
                .with_tensor(name)
        })
    }

    /// A tensor; the second time the same one.
    pub(super) fn tensor(&mut self, pickler: &mut Pickler, name: &str) -> Result<()> {
        let entry = self.entry(name)?;
        if let Some(number) = self.recalled.get(&(entry.name.as_ref(), None)) {
            pickler.get(*number);
            return Ok(());
        }
        self.rebuilt(pickler, name, Form::default())?;
        self.recalled.insert((&entry.name, None), pickler.put());
        Ok(())
    }

    /// A tensor as a form says, each time anew.
    pub(super) fn rebuilt(&mut self, pickler: &mut Pickler, name: &str, form: Form) -> Result<()> {
        let entry = self.entry(name)?;
        self.rebuild(pickler, entry, form).map_err(|error| error.with_tensor(name))
    }

    /// Puts a tensor with attributes on the stack that was there before; says whether it was.
    pub(super) fn recall(&self, pickler: &mut Pickler, text: &str) -> bool {
        let number = self.attributed.get(text);
        number.into_iter().for_each(|number| pickler.get(*number));
        number.is_some()
    }

    pub(super) fn remember(&mut self, pickler: &mut Pickler, text: String) {
        self.attributed.insert(text, pickler.put());
    }

    /// A parameter around a tensor.
    pub(super) fn parameter(&mut self, pickler: &mut Pickler, name: &str, trained: bool) -> Result<()> {
        let entry = self.entry(name)?;
        if let Some(number) = self.recalled.get(&(entry.name.as_ref(), Some(trained))) {
            pickler.get(*number);
            return Ok(());
        }
        pickler.global("torch._utils", "_rebuild_parameter");
        self.tensor(pickler, name)?;
        pickler.boolean(trained);
        pickler.no_hooks();
        pickler.op(TUPLE3);
        pickler.op(REDUCE);
        self.recalled.insert((&entry.name, Some(trained)), pickler.put());
        Ok(())
    }

    fn rebuild(&mut self, pickler: &mut Pickler, entry: &WriteEntry<'_>, form: Form) -> Result<()> {
        let plain = Form::default();
        match &entry.layout {
            Layout::Dense => {
                let part = part(entry, "data")?;
                let scalar = scalar_of(&part.element)?;
                self.dense(pickler, part, scalar, &entry.shape, form)
            }
            Layout::SparseCoo => {
                let (values, coordinates) = (part(entry, "values")?, part(entry, "coords")?);
                let (scalar, positions) = (scalar_of(&values.element)?, positions(&coordinates.element)?);
                let count = values.length / scalar.width;
                form.begin(pickler, "_rebuild_sparse_tensor");
                layout(pickler, "torch.sparse_coo")?;
                pickler.op(MARK);
                self.dense(pickler, coordinates, positions, &[entry.shape.len() as u64, count], plain)?;
                self.dense(pickler, values, scalar, &[count], plain)?;
                size(pickler, &entry.shape);
                pickler.boolean(entry.attributes.get("coalesced") == Some(&Value::Bool(true)));
                pickler.op(TUPLE);
                pickler.op(TUPLE2);
                form.end(pickler);
                Ok(())
            }
            other => match Compressed::of(other) {
                Some(kind) => self.compressed(pickler, entry, kind, form),
                None if other.name() == quantized::LAYOUT => self.quantized(pickler, entry, form),
                None => Err(refused(other)),
            },
        }
    }

    fn compressed(
        &mut self,
        pickler: &mut Pickler,
        entry: &WriteEntry<'_>,
        kind: Compressed,
        form: Form,
    ) -> Result<()> {
        let plain = Form::default();
        let name = match (kind.by_columns, kind.in_blocks) {
            (false, false) => "torch.sparse_csr",
            (true, false) => "torch.sparse_csc",
            (false, true) => "torch.sparse_bsr",
            (true, true) => "torch.sparse_bsc",
        };
        let values = part(entry, "values")?;
        let scalar = scalar_of(&values.element)?;
        let (indices, pointers) = (part(entry, "indices")?, part(entry, "indptr")?);
        let wrong = || Error::malformed("a sparse matrix without the shape of its blocks");
        let [rows, columns] = kind.block(&entry.shape, &entry.attributes).ok_or_else(wrong)?;
        let block = rows.checked_mul(columns).filter(|block| *block > 0).ok_or_else(wrong)?;
        let count = values.length / scalar.width / block;
        form.begin(pickler, "_rebuild_sparse_tensor");
        layout(pickler, name)?;
        pickler.op(MARK);
        for part in [pointers, indices] {
            let positions = positions(&part.element)?;
            self.dense(pickler, part, positions, &[part.length / positions.width], plain)?;
        }
        match kind.in_blocks {
            true => self.dense(pickler, values, scalar, &[count, rows, columns], plain)?,
            false => self.dense(pickler, values, scalar, &[count], plain)?,
        }
        size(pickler, &entry.shape);
        pickler.op(TUPLE);
        pickler.op(TUPLE2);
        form.end(pickler);
        Ok(())
    }

    fn quantized(&mut self, pickler: &mut Pickler, entry: &WriteEntry<'_>, form: Form) -> Result<()> {
        let plain = Form::default();
        let wrong = || Error::malformed("a quantised tensor without what its integers stand for");
        let text = |key: &str| entry.attributes.get(key).and_then(Value::as_text);
        let scalar = text("dtype").and_then(types::dtype).ok_or_else(wrong)?;
        let data = part(entry, "data")?;
        form.begin(pickler, "_rebuild_qtensor");
        pickler.op(MARK);
        self.storage(pickler, data, scalar)?;
        pickler.integer(0);
        pickler.numbers(entry.shape.iter().copied());
        pickler.numbers(strides(&entry.shape));
        match text("scheme") {
            Some("per_tensor_affine") => {
                let (Some(Value::Float(scale)), Some(Value::Integer(zero))) =
                    (entry.attributes.get("scale"), entry.attributes.get("zero_point"))
                else {
                    return Err(wrong());
                };
                pickler.global("torch", "per_tensor_affine");
                pickler.float(*scale);
                pickler.integer(i64::try_from(*zero).map_err(|_| wrong())?);
                pickler.op(TUPLE3);
            }
            Some("per_channel_affine") => {
                let axis = entry.attributes.get("axis").and_then(Value::as_u64).ok_or_else(wrong)?;
                let (scales, zeros) = (part(entry, "scales")?, part(entry, "zeros")?);
                let (scale, zero) = (scalar_of(&scales.element)?, scalar_of(&zeros.element)?);
                // Zero points that are no integers belong to another scheme of the same form.
                let scheme = match zero.name {
                    "int64" | "int32" => "per_channel_affine",
                    _ => "per_channel_affine_float_qparams",
                };
                pickler.op(MARK);
                pickler.global("torch", scheme);
                self.dense(pickler, scales, scale, &[scales.length / scale.width], plain)?;
                self.dense(pickler, zeros, zero, &[zeros.length / zero.width], plain)?;
                pickler.unsigned(axis);
                pickler.op(TUPLE);
            }
            _ => return Err(wrong()),
        }
        pickler.boolean(false);
        pickler.no_hooks();
        pickler.op(TUPLE);
        form.end(pickler);
        Ok(())
    }

    /// A plain tensor over the whole of a storage.
    fn dense(
        &mut self,
        pickler: &mut Pickler,
        part: &WritePart<'_>,
        scalar: Scalar,
        shape: &[u64],
        form: Form,
    ) -> Result<()> {
        let mut shape = shape.to_vec();
        if scalar.packed() > 1 {
            // PyTorch counts as many elements as fill a byte as one.
            match shape.last_mut() {
                Some(last) if *last % scalar.packed() == 0 => *last /= scalar.packed(),
                _ => {
                    return Err(Error::unsupported(format!(
                        "rows of torch.{} end at a whole byte, this one's do not",
                        scalar.name
                    )));
                }
            }
        }
        let typed = types::storage_class(scalar).is_some();
        let function = if typed { "_rebuild_tensor_v2" } else { "_rebuild_tensor_v3" };
        form.begin(pickler, function);
        pickler.op(MARK);
        self.storage(pickler, part, scalar)?;
        pickler.integer(0);
        pickler.numbers(shape.iter().copied());
        pickler.numbers(strides(&shape));
        pickler.boolean(form.trained);
        pickler.no_hooks();
        if !typed {
            pickler.global("torch", scalar.name);
        }
        pickler.op(TUPLE);
        form.end(pickler);
        Ok(())
    }

    /// A reference to a storage.
    fn storage(&mut self, pickler: &mut Pickler, part: &WritePart<'_>, scalar: Scalar) -> Result<()> {
        let next = self.storages.len();
        let number = *self.storages.entry(part.storage).or_insert(next);
        let (module, class, width) = match types::storage_class(scalar) {
            Some(class) => ("torch", class, scalar.width),
            None => ("torch.storage", "UntypedStorage", 1),
        };
        pickler.op(MARK);
        pickler.text("storage")?;
        pickler.global(module, class);
        pickler.text(&number.to_string())?;
        pickler.text("cpu")?;
        pickler.unsigned(part.length / width);
        pickler.op(TUPLE);
        pickler.op(BINPERSID);
        Ok(())
    }

    /// A NumPy array, whose elements stand in the pickle.
    pub(super) fn array(
        &mut self,
        pickler: &mut Pickler,
        name: &str,
        bytes: &mut Bytes<'_, '_>,
    ) -> Result<()> {
        let entry = self.entry(name)?;
        let part = plain(entry)?;
        pickler.global("numpy._core.multiarray", "_reconstruct");
        pickler.global("numpy", "ndarray");
        pickler.numbers([0]);
        pickler.bytes(b"b")?;
        pickler.op(TUPLE3);
        pickler.op(REDUCE);
        pickler.op(MARK);
        pickler.integer(1);
        pickler.numbers(entry.shape.iter().copied());
        dtype(pickler, numpy_code(&part.element)?)?;
        pickler.boolean(false);
        pickler.bytes(&bytes(entry, part)?)?;
        pickler.op(TUPLE);
        pickler.op(BUILD);
        Ok(())
    }

    /// A NumPy number that is a tensor of the file.
    pub(super) fn scalar(
        &mut self,
        pickler: &mut Pickler,
        name: &str,
        bytes: &mut Bytes<'_, '_>,
    ) -> Result<()> {
        let entry = self.entry(name)?;
        let part = plain(entry)?;
        number(pickler, numpy_code(&part.element)?, &bytes(entry, part)?)
    }

    /// A NumPy number.
    pub(super) fn typed(&self, pickler: &mut Pickler, name: &str, bytes: &[u8]) -> Result<()> {
        let known =
            Known::find(|names| names.numpy.is_some_and(|numpy| numpy.name == name && !numpy.from_ml_dtypes));
        let known = known.filter(|known| known.bits == 8 * bytes.len() as u64);
        let code = known.and_then(|known| known.names.npy);
        number(pickler, code.ok_or_else(|| Error::malformed(format!("a number is no {name}")))?, bytes)
    }
}

fn number(pickler: &mut Pickler, code: &str, bytes: &[u8]) -> Result<()> {
    pickler.global("numpy._core.multiarray", "scalar");
    dtype(pickler, code)?;
    pickler.bytes(bytes)?;
    pickler.op(TUPLE2);
    pickler.op(REDUCE);
    Ok(())
}

/// `numpy.dtype(code, False, True)` and its state.
fn dtype(pickler: &mut Pickler, code: &str) -> Result<()> {
    pickler.global("numpy", "dtype");
    pickler.text(code)?;
    pickler.boolean(false);
    pickler.boolean(true);
    pickler.op(TUPLE3);
    pickler.op(REDUCE);
    pickler.op(MARK);
    pickler.integer(3);
    pickler.text(if code.ends_with('1') { "|" } else { "<" })?;
    (0..3).for_each(|_| pickler.op(NONE));
    pickler.integer(-1);
    pickler.integer(-1);
    pickler.integer(0);
    pickler.op(TUPLE);
    pickler.op(BUILD);
    Ok(())
}

fn numpy_code(element: &ElementType) -> Result<&'static str> {
    let known =
        Known::of(element).filter(|known| known.names.numpy.is_some_and(|numpy| !numpy.from_ml_dtypes));
    known.and_then(|known| known.names.npy).ok_or_else(|| {
        Error::unsupported(format!("NumPy itself has no type for {element}, so that a pickle has none"))
            .with_hint("Make it a tensor.")
    })
}

fn plain<'e>(entry: &'e WriteEntry<'e>) -> Result<&'e WritePart<'e>> {
    match entry.layout {
        Layout::Dense => part(entry, "data"),
        ref other => Err(refused(other).with_tensor(&entry.name)),
    }
}

fn part<'e>(entry: &'e WriteEntry<'_>, role: &str) -> Result<&'e WritePart<'e>> {
    let found = entry.parts.iter().find(|part| part.role == role);
    found.ok_or_else(|| Error::new(Kind::Malformed, format!("a {} tensor without {role}", entry.layout)))
}

fn scalar_of(element: &ElementType) -> Result<Scalar> {
    types::of_element(element).ok_or_else(|| {
        Error::unsupported(format!("PyTorch has no dtype for {element}"))
            .with_hint("Write a .zt file instead.")
    })
}

/// Positions are signed in PyTorch; the bytes are the same.
fn positions(element: &ElementType) -> Result<Scalar> {
    let name = match (element.storage, &element.logical) {
        (DType::U64 | DType::I64, None) => "int64",
        (DType::U32 | DType::I32, None) => "int32",
        _ => {
            return Err(Error::unsupported(format!(
                "PyTorch has no sparse tensors with positions of {element}"
            )));
        }
    };
    types::dtype(name).ok_or_else(|| Error::malformed("no type for positions"))
}

fn layout(pickler: &mut Pickler, name: &str) -> Result<()> {
    pickler.global("torch.serialization", "_get_layout");
    pickler.text(name)?;
    pickler.op(TUPLE1);
    pickler.op(REDUCE);
    Ok(())
}

fn size(pickler: &mut Pickler, shape: &[u64]) {
    pickler.global("torch", "Size");
    pickler.numbers(shape.iter().copied());
    pickler.op(TUPLE1);
    pickler.op(REDUCE);
}

fn strides(shape: &[u64]) -> Vec<u64> {
    let mut strides = vec![1; shape.len()];
    for dimension in (1..shape.len()).rev() {
        strides[dimension - 1] = shape[dimension].max(1).saturating_mul(strides[dimension]);
    }
    strides
}

fn refused(layout: &Layout) -> Error {
    Error::unsupported(format!("PyTorch has no tensors of layout {layout}")).with_hints(Hints::new(
        "Write a .zt file instead, or convert ggml blocks with `Storage::dequantize`.",
        "Name the file .zt, or read ggml blocks with dequantize=True.",
        "Write a .zt file instead, or convert ggml blocks with --dequantize.",
    ))
}
