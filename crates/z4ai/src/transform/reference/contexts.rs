//! Which context each class and exponent has. There are far more pairs of them than tables are worth, so
//! pairs with similar counts share one: they are put in the order of how large their differences are, and
//! neighbours are merged as long as that costs less than a table.

use super::counts::Counts;
use super::{CHUNK_CLASSES, EXPONENT_NUMBERS, MAX_CONTEXTS};
use crate::entropy::plane;
use crate::entropy::rans::Tables;
use crate::entropy::table::{FrequencyTable, Histogram, MAX_PRECISION, SYMBOLS, entropy_bits};
use crate::error::{Error, Result};
use crate::frame::wire::Reader;

/// The contexts and their tables.
#[derive(Debug)]
pub(super) struct Contexts {
    map: [[u8; EXPONENT_NUMBERS]; CHUNK_CLASSES],
    /// Bit *c*: class *c* occurs.
    used: u16,
    /// How many contexts there are; the coder wants a power of two, so more tables may follow theirs.
    count: usize,
    pub tables: Tables,
}

/// Pairs that share a context.
struct ContextGroup {
    pairs: Vec<(usize, usize)>,
    counts: Box<Histogram>,
    cost: u64,
}

impl ContextGroup {
    fn merged_cost(&self, other: &Self) -> u64 {
        let mut counts = *self.counts;
        counts.iter_mut().zip(&*other.counts).for_each(|(sum, count)| *sum += count);
        entropy_bits(&counts)
    }

    /// How large the differences are, on average.
    fn size(&self) -> u64 {
        let (mut sum, mut total) = (0, 0);
        for (symbol, &count) in (0u64..).zip(&*self.counts) {
            sum += symbol * u64::from(count);
            total += u64::from(count);
        }
        (sum << 16) / total.max(1)
    }

    fn table(&self) -> FrequencyTable {
        FrequencyTable::normalise(&self.counts, MAX_PRECISION)
    }

    fn table_bits(&self) -> u64 {
        let mut bytes = Vec::new();
        self.table().write(&mut bytes);
        8 * bytes.len() as u64
    }
}

impl Contexts {
    /// Makes contexts for these counts, and says how many bits the symbols will take.
    pub fn choose(counts: &Counts) -> Result<(Self, u64)> {
        let mut groups: Vec<ContextGroup> = counts
            .used()
            .map(|(class, exponent, histogram)| ContextGroup {
                pairs: vec![(class, exponent)],
                counts: Box::new(*histogram),
                cost: entropy_bits(histogram),
            })
            .collect();
        groups.sort_by_cached_key(|group| (group.size(), group.pairs[0]));
        merge(&mut groups);
        let mut used = 0u16;
        let mut map = [[u8::MAX; EXPONENT_NUMBERS]; CHUNK_CLASSES];
        for (context, group) in (0u8..).zip(&groups) {
            for &(class, exponent) in &group.pairs {
                used |= 1 << class;
                map[class][exponent] = context;
            }
        }
        // Pairs that do not occur take their neighbour's context: runs of equal ones take least in the frame.
        for row in &mut map {
            let mut last = row.iter().copied().find(|&context| context != u8::MAX).unwrap_or(0);
            for context in row {
                if *context == u8::MAX {
                    *context = last;
                }
                last = *context;
            }
        }
        let tables: Vec<_> = groups.iter().map(ContextGroup::table).collect();
        let bits = groups.iter().map(|group| group.cost + group.table_bits()).sum();
        Ok((Self::new(map, used, tables)?, bits))
    }

    fn new(
        map: [[u8; EXPONENT_NUMBERS]; CHUNK_CLASSES],
        used: u16,
        mut tables: Vec<FrequencyTable>,
    ) -> Result<Self> {
        let count = tables.len();
        let last = tables.last().cloned();
        let last = last.unwrap_or_else(|| FrequencyTable::normalise(&[0; SYMBOLS], MAX_PRECISION));
        tables.resize(count.next_power_of_two(), last);
        Ok(Self { map, used, count, tables: Tables::new(tables)? })
    }

    /// The contexts of a class by exponent number, or an error if the section does not have the class.
    pub fn of_class(&self, class: u8) -> Result<&[u8; EXPONENT_NUMBERS]> {
        self.map
            .get(usize::from(class))
            .filter(|_| self.used >> class & 1 != 0)
            .ok_or_else(|| Error::corrupt("a chunk of a class that its section does not have"))
    }

    /// The contexts of all classes.
    pub fn rows(&self) -> &[[u8; EXPONENT_NUMBERS]; CHUNK_CLASSES] {
        &self.map
    }

    /// Whether all symbols have the same context.
    pub fn is_single(&self) -> bool {
        self.count <= 1
    }

    /// Appends the contexts.
    pub fn write(&self, out: &mut Vec<u8>) -> Result<()> {
        out.extend_from_slice(&self.used.to_le_bytes());
        if self.used == 0 {
            return Ok(());
        }
        out.push(self.count as u8);
        if !self.is_single() {
            let rows: Vec<u8> = self.used_classes().flat_map(|class| self.map[class]).collect();
            plane::write_bytes(&rows, out)?;
        }
        self.tables.frequencies().iter().take(self.count).for_each(|table| table.write(out));
        Ok(())
    }

    /// Reads what [`Contexts::write`] wrote, of differences with so many symbols.
    pub fn read(reader: &mut Reader, symbols: usize) -> Result<Self> {
        let used = u16::from_le_bytes(reader.array()?);
        if used & 1 != 0 {
            return Err(Error::corrupt("contexts of chunks without differences"));
        }
        let mut map = [[0; EXPONENT_NUMBERS]; CHUNK_CLASSES];
        let mut tables = Vec::new();
        if used != 0 {
            let count = usize::from(reader.u8()?);
            if !(1..=MAX_CONTEXTS).contains(&count) {
                return Err(Error::corrupt(format!("{count} contexts")));
            }
            if count > 1 {
                let rows = plane::read_bytes(reader, used.count_ones() as usize * EXPONENT_NUMBERS)?;
                if rows.iter().any(|&context| usize::from(context) >= count) {
                    return Err(Error::corrupt("a context without a table"));
                }
                let classes = (0..CHUNK_CLASSES).filter(|class| used >> class & 1 != 0);
                for (class, row) in classes.zip(rows.chunks_exact(EXPONENT_NUMBERS)) {
                    map[class].copy_from_slice(row);
                }
            }
            let read = |_| FrequencyTable::read_from(reader, MAX_PRECISION);
            tables = (0..count).map(read).collect::<Result<Vec<_>>>()?;
            if tables.iter().any(|table| table.frequencies[symbols..].iter().any(|&frequency| frequency > 0))
            {
                return Err(Error::corrupt("symbols that no difference of the width has"));
            }
        }
        Self::new(map, used, tables)
    }

    fn used_classes(&self) -> impl Iterator<Item = usize> {
        (0..CHUNK_CLASSES).filter(|class| self.used >> class & 1 != 0)
    }
}

/// Merges neighbours, the cheapest first, until few enough are left and each is worth its table.
fn merge(groups: &mut Vec<ContextGroup>) {
    let price = |groups: &[ContextGroup], at: usize| -> Option<u64> {
        let (first, second) = (groups.get(at)?, groups.get(at + 1)?);
        Some(first.merged_cost(second).saturating_sub(first.cost + second.cost))
    };
    let mut prices: Vec<u64> = (0..groups.len()).map_while(|at| price(groups, at)).collect();
    while let Some((at, &cheapest)) = prices.iter().enumerate().min_by_key(|(_, price)| **price) {
        if groups.len() <= MAX_CONTEXTS
            && cheapest >= groups[at].table_bits().min(groups[at + 1].table_bits())
        {
            break;
        }
        let second = groups.remove(at + 1);
        prices.remove(at);
        let first = &mut groups[at];
        first.counts.iter_mut().zip(&*second.counts).for_each(|(sum, count)| *sum += count);
        first.cost += second.cost + cheapest;
        first.pairs.extend(second.pairs);
        for neighbour in [at.checked_sub(1), Some(at)].into_iter().flatten() {
            if let (Some(slot), Some(price)) = (prices.get_mut(neighbour), price(groups, neighbour)) {
                *slot = price;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn symbols_that_no_difference_has_are_refused() {
        let mut counts = [0; SYMBOLS];
        counts[..200].fill(1);
        let table = FrequencyTable::normalise(&counts, MAX_PRECISION);
        let contexts = Contexts::new([[0; EXPONENT_NUMBERS]; CHUNK_CLASSES], 2, vec![table]).unwrap();
        let mut bytes = Vec::new();
        contexts.write(&mut bytes).unwrap();
        let read = |symbols| Contexts::read(&mut Reader::new(&bytes, "contexts"), symbols);
        assert_eq!(read(200).unwrap().count, 1);
        assert!(read(199).is_err());
    }
}
