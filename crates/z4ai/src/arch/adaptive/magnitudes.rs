//! Magnitudes of the adaptive coder: what each lane has learnt stays in registers for a whole run.

use super::lanes::{FilterRegisters, WordRegisters};
use crate::arch::eight::EightLanes;
use crate::entropy::rans::{MIXED_LANES, MixedTable};
use crate::entropy::table::MAX_PRECISION;
use crate::transform::adaptive::{
    ABOVE, Column, DUST, FURTHEST, LAST_RATE, LEFT, MagnitudeDecoder, MagnitudeRun, Moves, OCTAVE_BITS,
    PHASES, RATE_BITS, Rates,
};
use crate::transform::float::JOINT_BITS;

/// The numbers of 32 bits in a table, and where its shares begin.
const TABLE: i32 = (size_of::<MixedTable>() / 4) as i32;
const SHARES: i32 = 1 << (MAX_PRECISION - 2);

/// Decodes the next steps of a run, up to one with an escape.
///
/// # Safety
///
/// The CPU must have the instructions of `V`.
#[inline(always)]
pub(super) unsafe fn decode<V: EightLanes>(
    decoder: &mut MagnitudeDecoder,
    first: usize,
    run: &mut MagnitudeRun,
) {
    let MagnitudeDecoder { stream: decoder, context_mask, expected, distances, .. } = decoder;
    let (context_mask, expected, distances) =
        (*context_mask, &mut expected[first..], &mut distances[first..]);
    let steps = run.steps;
    assert!(expected.len() >= steps && distances.len() >= steps);
    assert!(run.places.iter().all(|place| place + steps <= run.columns.len()));
    assert!(LAST_RATE + steps <= run.row_rates.len());
    assert!(decoder.tables.len() > context_mask);
    let tables = decoder.tables.as_ptr();
    let columns = ColumnPlaces::new(run);
    let rates = StepRates::new(run);
    // SAFETY: the lengths above agree with the number of steps, which `step` is below. A table has a symbol
    // for each slot and a share for each symbol, and there are tables for all contexts of the mask. The
    // caller vouches for the instructions.
    unsafe {
        let mut stream = WordRegisters::<V>::new(decoder, run.lanes, steps - run.done);
        let mut places = FilterRegisters::<V>::new(run.kernels, run.lanes);
        let mut rows = V::load(run.states.rows.as_ptr());
        let mut kernels = V::load(run.states.kernels.as_ptr());
        let mut dusty = V::load(run.states.dusty.as_ptr().cast());
        let (base, last, fading) = (V::all(run.base), V::all(run.last), V::all(run.fading));
        let column_rates = V::load(run.column_rates.as_ptr());
        let context_mask = V::all(context_mask as i32);
        while run.done < steps {
            let step = run.done;
            let (column, above) = columns.load::<V>(step);
            let magnitude = base.add(column).add(rows.add(kernels)).least(last).greatest(V::all(0));
            let phase = magnitude.shift_right::<{ OCTAVE_BITS as i32 - 3 }>().and(V::all(PHASES as i32 - 1));
            let context = phase.or(dusty).or(above);
            let table = context.and(context_mask).multiply(V::all(TABLE));
            let sixteenths = magnitude.shift_right::<{ OCTAVE_BITS as i32 - 4 }>();
            let below = V::all(2).sub(sixteenths.and(V::all(15)));
            let slot = stream.slots();
            let found = FoundMagnitudes::look_up(
                tables,
                run.moves,
                table.shift_left::<2>().add(slot),
                table.add(V::all(SHARES)),
                below,
            );
            let FoundMagnitudes { symbols, shares, moves } = found;
            if stream.active(V::all(1 << JOINT_BITS).is_greater(symbols)) != 0 {
                break;
            }
            let rest = slot.sub(shares.and(V::all(0xffff)));
            let quotient = stream.states.shift_right::<{ MAX_PRECISION as i32 }>();
            stream.advance(shares.shift_right::<16>().multiply(quotient).add(rest));

            let distance = symbols.shift_left::<2>().add(below).add(V::all(FURTHEST));
            sixteenths.store_unsigned_words(expected.as_mut_ptr().add(step).cast());
            distance.store_signed_words(distances.as_mut_ptr().add(step).cast());

            rows = rows.add(part(moves, rates.of_rows(step)));
            kernels = kernels.add(part(moves, rates.of_kernels(&places)));
            let faded = kernels.shift_right_signed::<8>().and(fading);
            kernels = kernels.sub(faded).without(places.advance());
            let dust = V::all(DUST).is_greater(distance);
            dusty = dust.and(V::all(LEFT as i32));
            columns.store(step, column.add(part(moves, column_rates)), dust.and(V::all(ABOVE as i32)));
            run.done += 1;
        }
        let (mut new_rows, mut new_kernels, mut new_dusty) = ([0; 8], [0; 8], [0; 8]);
        rows.store(new_rows.as_mut_ptr());
        kernels.store(new_kernels.as_mut_ptr());
        dusty.store(new_dusty.as_mut_ptr());
        for lane in (0..MIXED_LANES).filter(|lane| run.lanes >> lane & 1 == 1) {
            run.states.rows[lane] = new_rows[lane];
            run.states.kernels[lane] = new_kernels[lane];
            run.states.dusty[lane] = new_dusty[lane] as u32;
        }
        places.finish(&mut run.kernels);
        stream.finish(decoder);
    }
}

/// The part of a move that is taken over at a rate.
///
/// # Safety
///
/// The CPU must have the instructions of `V`.
#[inline(always)]
unsafe fn part<V: EightLanes>(moved: V, rate: V) -> V {
    // SAFETY: the caller vouches for the instructions.
    unsafe { moved.multiply(rate).shift_right_signed::<{ RATE_BITS as i32 }>() }
}

/// What is looked up for the eight lanes of a step.
struct FoundMagnitudes<V> {
    symbols: V,
    shares: V,
    moves: V,
}

impl<V: EightLanes> FoundMagnitudes<V> {
    /// The symbols at `places`, in bytes from the first table on; their shares, in numbers of 32 bits from it
    /// on, behind `shares`; and the moves of four times the symbol and `below`, modulo their number. Each
    /// symbol indexes the next tables from a general register: through a vector it would have the latency of
    /// the slowest lane, and of the moves there and back, which is more than that of the look-up.
    ///
    /// # Safety
    ///
    /// The CPU must have the instructions of `V`. There must be a symbol at each place, and shares for all
    /// symbols behind each of `shares`.
    #[inline(always)]
    unsafe fn look_up(tables: *const MixedTable, moves: &Moves, places: V, shares: V, below: V) -> Self {
        let (mut symbols, mut found, mut moved) = ([0; 8], [0; 8], [0; 8]);
        // SAFETY: the caller vouches for the places.
        unsafe {
            let (places, shares, below) = (places.pairs(), shares.pairs(), below.pairs());
            for lane in 0..8 {
                let (pair, shift) = (lane / 2, 32 * (lane % 2));
                let symbol =
                    usize::from(tables.cast::<u8>().add((places[pair] >> shift) as u32 as usize).read());
                let share = (shares[pair] >> shift) as u32 as usize + symbol;
                symbols[lane] = symbol as i32;
                found[lane] = tables.cast::<i32>().add(share).read();
                moved[lane] =
                    moves[((below[pair] >> shift) as u32 as usize + 4 * symbol) & (moves.len() - 1)];
            }
            Self { symbols: V::of(symbols), shares: V::of(found), moves: V::of(moved) }
        }
    }
}

/// The rates of the steps of a run.
struct StepRates<'a> {
    /// Where those of each lane's row begin.
    rows: [*const i32; MIXED_LANES],
    kernels: &'a Rates,
}

impl<'a> StepRates<'a> {
    fn new(run: &MagnitudeRun<'a>) -> Self {
        let rates = run.row_rates.as_ptr();
        // SAFETY: there are more rates than that.
        let first = |column: usize| unsafe { rates.add(column.min(LAST_RATE)) };
        Self { rows: run.places.map(first), kernels: run.kernel_rates }
    }

    /// # Safety
    ///
    /// The CPU must have the instructions of `V`, and the step must be one of a run that has at most as many
    /// as a stretch.
    #[inline(always)]
    unsafe fn of_rows<V: EightLanes>(&self, step: usize) -> V {
        // SAFETY: behind the last rate, there are as many as a run has steps.
        unsafe { V::load_each(&self.rows, step) }
    }

    /// # Safety
    ///
    /// The CPU must have the instructions of `V`.
    #[inline(always)]
    unsafe fn of_kernels<V: EightLanes>(&self, places: &FilterRegisters<V>) -> V {
        // SAFETY: no index is beyond the last.
        unsafe {
            match places.common {
                Some(place) => V::all(self.kernels[(place as usize).min(LAST_RATE)]),
                None => {
                    V::look_up(self.kernels.as_ptr(), places.each.least_unsigned(V::all(LAST_RATE as i32)))
                }
            }
        }
    }
}

/// The column that each lane begins in.
struct ColumnPlaces([*mut Column; MIXED_LANES]);

impl ColumnPlaces {
    /// For a run whose places are inside its columns.
    fn new(run: &mut MagnitudeRun) -> Self {
        let columns = run.columns.as_mut_ptr();
        // SAFETY: the places are inside.
        Self(run.places.map(|place| unsafe { columns.add(place) }))
    }

    /// The values of the columns in a step, and whether they are dusty: a column has two numbers of 32 bits.
    ///
    /// # Safety
    ///
    /// The CPU must have the instructions of `V`, and the step must be one of the run's.
    #[inline(always)]
    unsafe fn load<V: EightLanes>(&self, step: usize) -> (V, V) {
        let [a, b, c, d, e, f, g, h] = self.0;
        // SAFETY: as many columns as there are steps follow each place.
        unsafe {
            V::load_pairs([
                a.add(step).cast(),
                b.add(step).cast(),
                c.add(step).cast(),
                d.add(step).cast(),
                e.add(step).cast(),
                f.add(step).cast(),
                g.add(step).cast(),
                h.add(step).cast(),
            ])
        }
    }

    /// Sets them.
    ///
    /// # Safety
    ///
    /// The CPU must have the instructions of `V`, and the step must be one of the run's.
    #[inline(always)]
    unsafe fn store<V: EightLanes>(&self, step: usize, values: V, dusty: V) {
        let [a, b, c, d, e, f, g, h] = self.0;
        // SAFETY: as many columns as there are steps follow each place.
        unsafe {
            let places = [
                a.add(step).cast(),
                b.add(step).cast(),
                c.add(step).cast(),
                d.add(step).cast(),
                e.add(step).cast(),
                f.add(step).cast(),
                g.add(step).cast(),
                h.add(step).cast(),
            ];
            V::store_pairs(values, dusty, places);
        }
    }
}
