//! Inputs that between them make the encoder write every model, every form of a block and every form of a
//! section. They are computed with integers and exact float operations only, so that every platform has the
//! same bytes.

mod deltas;
mod elements;
mod floats;
pub mod forms;
pub mod handmade;
mod others;
mod quantised;

pub use elements::*;

use z4ai::{Dtype, Effort, Options};

/// An input of the encoder.
pub struct Case {
    pub name: String,
    pub bytes: Vec<u8>,
    pub options: Options,
    /// The case whose bytes are the reference of a delta.
    pub against: Option<String>,
    /// Written as a stream, without a length in the header.
    pub streamed: bool,
}

const EFFORTS: [Effort; 3] = [Effort::Fast, Effort::Default, Effort::Max];

struct Cases(Vec<Case>);

impl Cases {
    fn add(&mut self, name: &str, bytes: &[u8], options: Options) {
        self.0.push(Case {
            name: format!("{name}-{}", options.effort.name()),
            bytes: bytes.to_vec(),
            options,
            against: None,
            streamed: false,
        });
    }

    /// With every effort.
    fn efforts(&mut self, name: &str, bytes: &[u8], options: Options) {
        EFFORTS.into_iter().for_each(|effort| self.add(name, bytes, options.clone().effort(effort)));
    }

    fn delta(&mut self, name: &str, bytes: &[u8], against: &str, options: Options) {
        let name = format!("delta-{name}");
        self.add(&name, bytes, options);
        if let Some(case) = self.0.last_mut() {
            case.against = Some(against.into());
        }
    }
}

/// Every case. Their names are the names of the golden frames.
pub fn all() -> Vec<Case> {
    let mut cases = Cases(Vec::new());
    floats::add(&mut cases);
    quantised::add(&mut cases);
    others::add(&mut cases);
    others::add_sections(&mut cases);
    deltas::add(&mut cases);
    cases.0
}
