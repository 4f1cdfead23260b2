//! The words for how tensors are stored: codec, effort, level, checksum.

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyString};
use ztensor::{Checksum, Compression, Effort};

use crate::errors::{OrRaise, argument};

/// The level of zstd where none is given.
const ZSTD_LEVEL: i32 = 3;

/// What a call says of storage: the words, and the older one (`compression=`, `compress=`) by its name.
pub(crate) struct Words<'a, 'py> {
    pub(crate) codec: Option<&'a str>,
    pub(crate) effort: Option<&'a str>,
    pub(crate) level: Option<i32>,
    pub(crate) checksum: Option<&'a str>,
    pub(crate) alias: (&'static str, Option<&'a Bound<'py, PyAny>>),
}

impl Words<'_, '_> {
    /// How bytes are stored.
    pub(crate) fn compression(&self) -> PyResult<Compression> {
        let (name, alias) = self.alias;
        let old = alias.map_or(Ok(Compression::None), |value| older(name, value))?;
        if self.codec.is_none() && self.effort.is_none() && self.level.is_none() {
            return Ok(old);
        }
        if old != Compression::None {
            return Err(argument(format!(
                "codec, effort and level say what {name} says; give one or the other"
            )));
        }
        match (self.codec, self.effort, self.level) {
            (Some("zstd"), Some(_), _) => Err(argument("effort is for z4ai; zstd has level=1 to 22")),
            (Some("z4ai") | None, Some(_), Some(_)) | (Some("z4ai"), None, Some(_)) => {
                Err(argument("level is for zstd; z4ai has effort=\"fast\", \"default\" or \"max\""))
            }
            (Some("zstd") | None, None, level) => match level.unwrap_or(ZSTD_LEVEL) {
                level @ 1..=22 => Ok(Compression::Zstd(level)),
                other => Err(argument(format!("level must be from 1 to 22, not {other}"))),
            },
            (Some("z4ai") | None, effort, None) => {
                let effort = effort.map(Effort::parse).transpose();
                effort
                    .map(|effort| Compression::Z4ai(effort.unwrap_or_default()))
                    .map_err(|cause| argument(cause.to_string()))
            }
            (Some("none" | "raw"), None, None) => Ok(Compression::None),
            (Some("none" | "raw"), ..) => Err(argument("without a codec there is neither effort nor level")),
            (Some(other), ..) => {
                Err(argument(format!("codec must be \"zstd\", \"z4ai\" or None, not \"{other}\"")))
            }
        }
    }

    /// Which checksum is stored.
    pub(crate) fn checksum(&self) -> PyResult<Checksum> {
        self.checksum.map_or(Ok(Checksum::None), |name| Checksum::parse(name).or_raise())
    }
}

/// The older word: `None`, `False` or 0; `True`; a zstd level; or the name of a codec or an effort.
fn older(name: &str, value: &Bound<'_, PyAny>) -> PyResult<Compression> {
    let refuse = || {
        argument(format!("{name} must be a bool, a zstd level from 1 to 22, \"z4ai\", \"fast\" or \"max\""))
    };
    if value.is_none() {
        return Ok(Compression::None);
    }
    if let Ok(flag) = value.cast::<PyBool>() {
        return Ok(if flag.is_true() { Compression::Zstd(ZSTD_LEVEL) } else { Compression::None });
    }
    if let Ok(name) = value.cast::<PyString>() {
        return Compression::parse(name.to_str()?).or_raise();
    }
    match value.extract::<i32>().map_err(|_| refuse())? {
        0 => Ok(Compression::None),
        level @ 1..=22 => Ok(Compression::Zstd(level)),
        _ => Err(refuse()),
    }
}
