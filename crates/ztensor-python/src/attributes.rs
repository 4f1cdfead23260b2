//! Metadata values between the core and Python: `None`, `bool`, `int`, `float`, `str`, `bytes`, lists and dictionaries with text keys.

use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};
use ztensor::{Attributes, Value};

use crate::errors::argument;

/// Nesting that readers accept; deeper values are refused before they are written.
const DEEPEST: usize = 32;

/// A dictionary of attributes.
pub(crate) fn to_dict<'py>(py: Python<'py>, attributes: &Attributes) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    for (key, value) in attributes {
        dict.set_item(key, to_python(py, value)?)?;
    }
    Ok(dict)
}

/// One value.
pub(crate) fn to_python<'py>(py: Python<'py>, value: &Value) -> PyResult<Bound<'py, PyAny>> {
    match value {
        Value::Null => Ok(py.None().into_bound(py)),
        Value::Bool(value) => value.into_bound_py_any(py),
        Value::Integer(value) => value.into_bound_py_any(py),
        Value::Float(value) => value.into_bound_py_any(py),
        Value::Text(text) => text.into_bound_py_any(py),
        Value::Bytes(bytes) => Ok(PyBytes::new(py, bytes).into_any()),
        Value::List(values) => {
            let values: Vec<_> = values.iter().map(|value| to_python(py, value)).collect::<PyResult<_>>()?;
            Ok(PyList::new(py, values)?.into_any())
        }
        Value::Map(map) => Ok(to_dict(py, map)?.into_any()),
    }
}

/// Attributes from a dictionary with text keys.
pub(crate) fn from_dict(dict: &Bound<'_, PyDict>) -> PyResult<Attributes> {
    map_from(dict, 0)
}

fn map_from(dict: &Bound<'_, PyDict>, depth: usize) -> PyResult<Attributes> {
    let mut attributes = Attributes::new();
    for (key, value) in dict {
        let key = key.cast::<PyString>().map_err(|_| argument("metadata keys must be text"))?;
        attributes.insert(key.to_str()?.to_owned(), from_python(&value, depth)?);
    }
    Ok(attributes)
}

fn from_python(value: &Bound<'_, PyAny>, depth: usize) -> PyResult<Value> {
    if depth > DEEPEST {
        return Err(argument(format!("metadata is nested more than {DEEPEST} levels deep")));
    }
    let list = |items: Vec<Bound<'_, PyAny>>| {
        let values = items.iter().map(|item| from_python(item, depth + 1)).collect::<PyResult<_>>()?;
        Ok(Value::List(values))
    };
    if value.is_none() {
        Ok(Value::Null)
    } else if let Ok(text) = value.cast::<PyString>() {
        Ok(Value::Text(text.to_str()?.to_owned()))
    } else if let Ok(flag) = value.cast::<PyBool>() {
        Ok(Value::Bool(flag.is_true()))
    } else if value.is_instance_of::<PyInt>() {
        // CBOR and every reader stop at 64 bits.
        let integer: i128 = value.extract()?;
        if integer < i128::from(i64::MIN) || integer > i128::from(u64::MAX) {
            return Err(argument(format!("the metadata value {integer} does not fit 64 bits")));
        }
        Ok(Value::Integer(integer))
    } else if let Ok(number) = value.cast::<PyFloat>() {
        Ok(Value::Float(number.value()))
    } else if let Ok(bytes) = value.cast::<PyBytes>() {
        Ok(Value::Bytes(bytes.as_bytes().to_vec()))
    } else if let Ok(items) = value.cast::<PyList>() {
        list(items.iter().collect())
    } else if let Ok(items) = value.cast::<PyTuple>() {
        list(items.iter().collect())
    } else if let Ok(dict) = value.cast::<PyDict>() {
        Ok(Value::Map(map_from(dict, depth + 1)?))
    } else {
        Err(argument(format!("metadata cannot hold a value of type {}", value.get_type().name()?)))
    }
}
