//! How the symbols of the adaptive coder are distributed: a shape with rates of escapes, which takes a few
//! bytes, or tables.

use super::learner::{PHASES, SYMBOL_CONTEXTS};
use crate::entropy::rans::{EncoderTables, MixedTable, Tables};
use crate::entropy::table::{FrequencyTable, Histogram, MAX_PRECISION, SYMBOLS, log2_1024};
use crate::error::{Error, Result};
use crate::frame::wire::Reader;
use crate::transform::float::JOINT_BITS;
use crate::transform::float::shape::{EscapeRate, Shape};
use std::sync::OnceLock;

/// The tables of the symbols' contexts.
#[derive(Debug)]
pub(super) struct SymbolCode {
    tables: Tables,
    decoder: OnceLock<Vec<MixedTable>>,
    /// What the tables follow from: a shape, and a rate of escapes for each class of contexts.
    shape: Option<(Shape, Vec<EscapeRate>)>,
}

/// What an escape is assumed to take besides its symbol; most are zeros. At maximum effort: half or double
/// changes no size.
const ESCAPE_BITS: u32 = 3;

/// One class of contexts for all, one for each of the four kinds of neighbourhood, or tables.
const ONE_RATE: u8 = 0;
const FOUR_RATES: u8 = 1;
const TABLES: u8 = 2;
const FOUR_TABLES: u8 = 3;

impl SymbolCode {
    /// The smallest code for symbols with these counts, the description included.
    pub fn fit(histograms: &[Histogram]) -> Result<Self> {
        let mut merged: Vec<Histogram> = vec![[0; SYMBOLS]; PHASES];
        for (context, histogram) in histograms.iter().enumerate() {
            let target = &mut merged[context & (PHASES - 1)];
            target.iter_mut().zip(histogram).for_each(|(sum, more)| *sum += more);
        }
        let (shape, _) = Shape::fit(&merged);
        let one = Self::of_shape(shape, vec![shape.escape_rate(histograms)])?;
        let four = histograms.chunks(PHASES).map(|class| shape.escape_rate(class)).collect();
        let four = Self::of_shape(shape, four)?;
        let tables = |histograms: &[Histogram]| {
            let tables =
                histograms.iter().map(|histogram| FrequencyTable::normalise(histogram, MAX_PRECISION));
            Self::of_tables(tables.collect(), None)
        };
        let candidates = [one, four, tables(&merged)?, tables(histograms)?];
        let best = candidates.into_iter().min_by_key(|code| code.cost(histograms));
        best.ok_or_else(|| Error::corrupt("no code for symbols"))
    }

    /// Bits of the code and of symbols with these counts.
    fn cost(&self, histograms: &[Histogram]) -> u64 {
        let mut side = Vec::new();
        self.write(&mut side);
        let mut cost = 8 * 1024 * side.len() as u64;
        for (context, histogram) in histograms.iter().enumerate() {
            let Some(table) = self.tables.frequencies().get(context & self.context_mask()) else { continue };
            for (symbol, &count) in histogram.iter().enumerate().filter(|(_, count)| **count > 0) {
                let escapes = self.escapes(symbol as u8);
                let coded = if escapes { symbol & 3 } else { symbol };
                let frequency = u64::from(table.frequencies[coded]).max(1);
                let bits = MAX_PRECISION * 1024 - log2_1024(frequency);
                cost += u64::from(count) * u64::from(bits + if escapes { ESCAPE_BITS * 1024 } else { 0 });
            }
        }
        cost / 1024
    }

    fn of_shape(shape: Shape, rates: Vec<EscapeRate>) -> Result<Self> {
        let step = 16 / PHASES as i32;
        let tables = rates
            .iter()
            .flat_map(|&rate| (0..PHASES as i32).map(move |phase| shape.table(step * phase, rate)));
        Self::of_tables(tables.collect(), Some((shape, rates)))
    }

    fn of_tables(frequencies: Vec<FrequencyTable>, shape: Option<(Shape, Vec<EscapeRate>)>) -> Result<Self> {
        Ok(Self { tables: Tables::new(frequencies)?, decoder: OnceLock::new(), shape })
    }

    /// The code of the kind in a model.
    pub fn to_code(&self) -> u8 {
        match &self.shape {
            Some((_, rates)) if rates.len() == 1 => ONE_RATE,
            Some(_) => FOUR_RATES,
            None if self.tables.frequencies().len() == PHASES => TABLES,
            None => FOUR_TABLES,
        }
    }

    /// Appends what the kind needs.
    pub fn write(&self, out: &mut Vec<u8>) {
        match &self.shape {
            Some((shape, rates)) => {
                shape.write(out);
                rates.iter().for_each(|rate| rate.write(out));
            }
            None => self.tables.frequencies().iter().for_each(|table| table.write(out)),
        }
    }

    /// Reads a code of the kind `code`.
    pub fn read(code: u8, reader: &mut Reader) -> Result<Self> {
        let rates = match code {
            ONE_RATE => 1,
            FOUR_RATES => SYMBOL_CONTEXTS / PHASES,
            TABLES | FOUR_TABLES => {
                let contexts = if code == TABLES { PHASES } else { SYMBOL_CONTEXTS };
                let tables = (0..contexts).map(|_| FrequencyTable::read_from(reader, MAX_PRECISION));
                return Self::of_tables(tables.collect::<Result<_>>()?, None);
            }
            _ => return Err(Error::corrupt("a code of symbols that there is not")),
        };
        let shape = Shape::read(reader)?;
        Self::of_shape(shape, (0..rates).map(|_| EscapeRate::read(reader)).collect::<Result<_>>()?)
    }

    /// The encoder's form of the tables.
    pub fn encoder(&self) -> &EncoderTables {
        self.tables.encoder()
    }

    /// The decoder's form of the tables, made when it is first needed.
    pub fn decoder(&self) -> &[MixedTable] {
        self.decoder.get_or_init(|| self.tables.frequencies().iter().map(MixedTable::new).collect())
    }

    /// The bits of a context that tell tables apart.
    pub fn context_mask(&self) -> usize {
        self.tables.frequencies().len() - 1
    }

    /// Whether elements with this symbol are escapes.
    pub fn escapes(&self, symbol: u8) -> bool {
        match &self.shape {
            Some((shape, _)) => shape.escapes(symbol),
            None => symbol >> JOINT_BITS == 0,
        }
    }
}
