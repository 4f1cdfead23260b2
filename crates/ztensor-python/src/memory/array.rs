//! NumPy arrays over memory that this library owns, and the bytes of arrays that users own. This is the only place of the
//! extension that touches raw memory; its functions are safe because each checks that the array lies inside the memory it is given.
#![allow(unsafe_code)]

use std::ffi::c_int;
use std::ptr;

use numpy::npyffi::{self, NpyTypes, PY_ARRAY_API, npy_intp};
use numpy::{PyArrayDescr, PyArrayDescrMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::exceptions::PyMemoryError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::errors::argument;
use crate::memory::Memory;
use crate::work::Work;

/// A range of some [`Memory`].
pub(crate) struct Region<'py> {
    memory: Bound<'py, Memory>,
    address: *mut u8,
    length: usize,
}

impl<'py> Region<'py> {
    /// A range of a block, or of the map of one of a reader's files; `None` if it is not inside.
    pub(crate) fn new(
        memory: &Bound<'py, Memory>,
        file: usize,
        offset: u64,
        length: u64,
    ) -> Option<Region<'py>> {
        let (start, total) = memory.get().extent(file)?;
        let (offset, length) = (usize::try_from(offset).ok()?, usize::try_from(length).ok()?);
        offset.checked_add(length).filter(|end| *end <= total)?;
        Some(Region { memory: memory.clone(), address: start.wrapping_add(offset), length })
    }

    /// A writable array over the range. Without strides it is contiguous and fills the range; with strides, every element must lie
    /// inside, counted from `offset`.
    pub(crate) fn array(
        &self,
        descriptor: &Bound<'py, PyArrayDescr>,
        shape: &[usize],
        strides: Option<(u64, &[i64])>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let width = descriptor.itemsize();
        let (offset, strides) = strides.map_or((0, None), |(offset, strides)| (offset, Some(strides)));
        let fits = match strides {
            None => bytes_of(shape, width) == Some(self.length),
            Some(strides) => reaches_inside(self.length, offset, shape, strides, width),
        };
        let dimensions = c_int::try_from(shape.len()).ok().filter(|_| fits && !descriptor.has_object());
        let Some(dimensions) = dimensions else {
            return Err(argument(format!(
                "an array of shape {shape:?} does not fit its {} bytes",
                self.length
            )));
        };
        let py = self.memory.py();
        // An empty array needs no memory of ours: NumPy brings its own.
        let data =
            if shape.contains(&0) { ptr::null_mut() } else { self.address.wrapping_add(offset as usize) };
        let aligned = data.addr().is_multiple_of(descriptor.alignment().max(1));
        let flags = npyffi::NPY_ARRAY_WRITEABLE | if aligned { npyffi::NPY_ARRAY_ALIGNED } else { 0 };
        let mut shape: Vec<npy_intp> = shape.iter().map(|&dimension| dimension as npy_intp).collect();
        let mut strides: Vec<npy_intp> =
            strides.into_iter().flatten().map(|&step| step as npy_intp).collect();
        let walk = if data.is_null() || strides.is_empty() { ptr::null_mut() } else { strides.as_mut_ptr() };
        // SAFETY: the checks above keep every element inside the region, whose memory the base object keeps alive; the
        // descriptor holds no Python objects; NumPy takes a reference to the descriptor, copies shape and strides, and reports
        // failure by returning null with an exception set.
        unsafe {
            let array = PY_ARRAY_API.PyArray_NewFromDescr(
                py,
                npyffi::get_type_object(py, NpyTypes::PyArray_Type),
                descriptor.clone().into_dtype_ptr(),
                dimensions,
                shape.as_mut_ptr(),
                walk,
                data.cast(),
                flags,
                ptr::null_mut(),
            );
            let array = Bound::from_owned_ptr_or_err(py, array)?;
            if !data.is_null() {
                let base = self.memory.clone().into_ptr();
                if PY_ARRAY_API.PyArray_SetBaseObject(py, array.as_ptr().cast(), base) != 0 {
                    return Err(PyErr::fetch(py));
                }
            }
            Ok(array)
        }
    }
}

/// Bytes of a contiguous array; `None` on overflow.
fn bytes_of(shape: &[usize], width: usize) -> Option<usize> {
    if shape.contains(&0) {
        return Some(0);
    }
    shape.iter().try_fold(width, |bytes, &dimension| bytes.checked_mul(dimension))
}

fn reaches_inside(length: usize, offset: u64, shape: &[usize], strides: &[i64], width: usize) -> bool {
    if strides.len() != shape.len() {
        return false;
    }
    if shape.contains(&0) {
        return true;
    }
    let (mut low, mut high) = (i128::from(offset), i128::from(offset) + width as i128);
    for (&dimension, &stride) in shape.iter().zip(strides) {
        let reach = (dimension as i128 - 1) * i128::from(stride);
        let bound = if reach < 0 { &mut low } else { &mut high };
        let Some(moved) = bound.checked_add(reach) else { return false };
        *bound = moved;
    }
    low >= 0 && high <= length as i128
}

/// The bytes of a contiguous array of the user's, held alive while they are read or filled without the interpreter lock.
pub(crate) struct ArrayBytes {
    _array: Py<PyUntypedArray>,
    address: *mut u8,
    length: usize,
    writable: bool,
}

// SAFETY: the array is kept alive and its memory does not move while there is a reference to it. As everywhere in NumPy, a program that
// writes to an array in one thread while another thread saves it gets a mix of both.
unsafe impl Send for ArrayBytes {}
// SAFETY: as above.
unsafe impl Sync for ArrayBytes {}

impl ArrayBytes {
    /// The bytes of an array; `None` unless it is C-contiguous and holds plain numbers.
    pub(crate) fn of(array: &Bound<'_, PyUntypedArray>) -> Option<ArrayBytes> {
        let descriptor = array.dtype();
        if !array.is_c_contiguous() || descriptor.has_object() {
            return None;
        }
        let length = bytes_of(array.shape(), descriptor.itemsize())?;
        // SAFETY: the pointer is to a live array object; its data and flags are plain fields of it.
        let (address, flags) = unsafe {
            let object = array.as_array_ptr();
            ((*object).fields.data.cast::<u8>(), (*object).fields.flags)
        };
        let writable = flags & npyffi::NPY_ARRAY_WRITEABLE != 0;
        Some(ArrayBytes { _array: array.clone().unbind(), address, length, writable })
    }

    /// Whether the array may be written to.
    pub(crate) fn is_writable(&self) -> bool {
        self.writable
    }

    /// The bytes, to read.
    pub(crate) fn bytes(&self) -> &[u8] {
        if self.length == 0 {
            return &[];
        }
        // SAFETY: a contiguous array of this many bytes lies there, and `_array` keeps it alive.
        unsafe { std::slice::from_raw_parts(self.address, self.length) }
    }

    /// The bytes, to fill; `None` for a read-only array.
    pub(crate) fn bytes_mut(&mut self) -> Option<&mut [u8]> {
        if !self.writable {
            return None;
        }
        if self.length == 0 {
            return Some(&mut []);
        }
        // SAFETY: as in `bytes`; the array says that it may be written to.
        Some(unsafe { std::slice::from_raw_parts_mut(self.address, self.length) })
    }
}

/// Whether any two of some arrays share memory.
pub(crate) fn overlap<'a>(arrays: impl Iterator<Item = &'a ArrayBytes>) -> bool {
    let mut ranges: Vec<(usize, usize)> =
        arrays.map(|array| (array.address.addr(), array.address.addr() + array.length)).collect();
    ranges.sort_unstable();
    ranges.windows(2).any(|pair| pair[1].0 < pair[0].1)
}

/// A `bytes` object that is filled without the interpreter lock, on all cores, and never cleared first: clearing costs as much as decoding.
pub(crate) fn new_bytes<'py, E: Send>(
    py: Python<'py>,
    length: usize,
    fill: impl FnOnce(&mut [u8]) -> Result<(), E> + Send,
) -> PyResult<Result<Bound<'py, PyBytes>, E>> {
    let size = ffi::Py_ssize_t::try_from(length).map_err(|_| PyMemoryError::new_err(()))?;
    // SAFETY: with a null pointer the object is made with room for `size` bytes, or null is returned with an exception set. Nobody else has
    // seen the object yet, so its memory may be written to. It may hold anything before; any byte is a valid `u8`, and if
    // filling fails the object is dropped unread.
    let (bytes, memory) = unsafe {
        let bytes = Bound::from_owned_ptr_or_err(py, ffi::PyBytes_FromStringAndSize(ptr::null(), size))?;
        let start = ffi::PyBytes_AsString(bytes.as_ptr()).cast::<u8>();
        (bytes.cast_into_unchecked::<PyBytes>(), std::slice::from_raw_parts_mut(start, length))
    };
    Ok(py.work(|| fill(memory)).map(|()| bytes))
}
