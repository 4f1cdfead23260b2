//! `ztensor cat`

use std::borrow::Cow;
use std::io::{IsTerminal, Write};
use std::path::PathBuf;

use clap::Args;
use ztensor::convert::Precision;
use ztensor::{ElementType, Layout, Output, Reader, Shape};

use super::bases::Bases;
use super::convert::precision;
use super::force::Force;
use crate::display::{complain, say, to_pipe};
use crate::{Failure, Outcome, Result, npy};

/// Elements shown on a terminal.
const SHOWN: usize = 64;

#[derive(Args)]
pub(crate) struct Cat {
    /// The file, of any format
    file: PathBuf,
    /// The tensor's name
    name: String,
    /// Write to this file instead of standard output
    #[arg(short, long, value_name = "PATH")]
    output: Option<PathBuf>,
    /// Write the bytes alone, without a .npy header
    #[arg(long)]
    raw: bool,
    /// The component to write, for tensors that have several
    #[arg(long, value_name = "ROLE")]
    component: Option<String>,
    /// Turn quantised GGUF blocks into plain elements: f32, f16 or bf16
    #[arg(long, value_name = "DTYPE", value_parser = ["f32", "f16", "bf16"], conflicts_with = "component")]
    dequantize: Option<String>,
    #[command(flatten)]
    bases: Bases,
    #[command(flatten)]
    force: Force,
}

impl Cat {
    pub(crate) fn run(self) -> Result {
        let reader = self.bases.open(&self.file)?;
        let object = reader.object(&self.name)?;
        let role = match (&self.component, &object.layout) {
            (Some(role), _) => role.clone(),
            (None, Layout::Dense) => "data".to_owned(),
            (None, layout) => match &object.components[..] {
                [(only, _)] => only.to_string(),
                several => {
                    let roles: Vec<&str> = several.iter().map(|(role, _)| &**role).collect();
                    return Err(Failure::new(format!(
                        "a {layout} tensor has components {}; choose one with --component",
                        roles.join(", ")
                    )));
                }
            },
        };
        let (element, shape, bytes) = match &self.dequantize {
            Some(name) => dequantized(&reader, &self.name, precision(name))?,
            None => {
                let component = object
                    .component(&role)
                    .ok_or_else(|| Failure::new(format!("no component \"{role}\"")))?;
                let shape = object.component_shape(&role).unwrap_or_default();
                (component.element.clone(), shape, reader.component_bytes(&self.name, &role)?)
            }
        };
        // What was asked for is the tensor; what is written are the blocks that it is stored in.
        let dtype = object.dtype();
        let chosen = self.raw || self.component.is_some() || self.dequantize.is_some();
        if !chosen && matches!(object.layout, Layout::Other(_)) && dtype != element.to_string() {
            complain(&format!(
                "ztensor: \"{}\" is stored as {dtype}; these are its blocks, as {element}. --dequantize f32 gives the numbers they stand for",
                self.name
            ));
        }
        let to_terminal = self.output.is_none() && std::io::stdout().is_terminal();
        if to_terminal && !self.raw {
            say(&format!("{} {} {}", self.name, element, object.shape))?;
            let values = super::diff::values(&element, &bytes, SHOWN);
            let more = if values.len() == SHOWN && shape.elements().is_some_and(|count| count > SHOWN as u64)
            {
                " …"
            } else {
                ""
            };
            say(&format!("{}{more}", values.join(" ")))?;
            return Ok(Outcome::Done);
        }
        let header = if self.raw { Vec::new() } else { npy::header(&element, &shape)? };
        match &self.output {
            Some(path) => {
                self.force.allow(path)?;
                let mut file = Output::create(path)?;
                file.write(&header)?;
                file.write(&bytes)?;
                file.publish(false)?;
            }
            None => {
                let mut out = std::io::stdout().lock();
                to_pipe(
                    out.write_all(&header).and_then(|()| out.write_all(&bytes)).and_then(|()| out.flush()),
                )?;
            }
        }
        Ok(Outcome::Done)
    }
}

/// The values of a tensor of ggml blocks.
fn dequantized<'r>(
    reader: &'r Reader,
    name: &str,
    precision: Precision,
) -> Result<(ElementType, Shape, Cow<'r, [u8]>)> {
    let bytes = match precision {
        Precision::F32 => little(&reader.dequantize_as::<f32>(name)?, |value| value.to_le_bytes()),
        Precision::F16 => little(&reader.dequantize_as::<half::f16>(name)?, |value| value.to_le_bytes()),
        Precision::BF16 => little(&reader.dequantize_as::<half::bf16>(name)?, |value| value.to_le_bytes()),
    };
    Ok((precision.dtype().into(), reader.shape(name)?.clone(), Cow::Owned(bytes)))
}

fn little<T: Copy, const N: usize>(values: &[T], bytes: impl Fn(T) -> [u8; N]) -> Vec<u8> {
    values.iter().flat_map(|value| bytes(*value)).collect()
}
