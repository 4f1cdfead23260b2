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
#[inline(always)]
pub(super) fn decode<V: EightLanes>(
    kernel: V::Kernel,
    decoder: &mut MagnitudeDecoder,
    first: usize,
    run: &mut MagnitudeRun,
) {
    let MagnitudeDecoder { stream: decoder, context_mask, expected, distances, .. } = decoder;
    let (context_mask, expected, distances) =
        (*context_mask, &mut expected[first..][..run.steps], &mut distances[first..][..run.steps]);
    let steps = expected.len();
    assert!(distances.len() == steps);
    assert!(run.places.iter().all(|place| place + steps <= run.columns.len()));
    assert!(LAST_RATE + steps <= run.row_rates.len());
    assert!(decoder.tables.len() > context_mask);
    let tables = decoder.tables.as_ptr();
    let columns = ColumnPlaces::new(run);
    let rates = StepRates::new(run);
    let all = |number: i32| V::all(kernel, number);
    let mut stream = WordRegisters::<V>::new(kernel, decoder, run.lanes, steps - run.done);
    let mut places = FilterRegisters::<V>::new(kernel, run.filters, run.lanes);
    let mut rows = V::load(kernel, &run.states.rows);
    let mut filters = V::load(kernel, &run.states.filters);
    let mut dusty = V::load(kernel, bytemuck::cast_ref(&run.states.dusty));
    let (base, last, fading) = (all(run.base), all(run.last), all(run.fading));
    let column_rates = V::load(kernel, &run.column_rates);
    let context_mask = all(context_mask as i32);
    while run.done < steps {
        let step = run.done;
        // SAFETY: the step is one of the run's.
        let (column, above) = unsafe { columns.load::<V>(kernel, step) };
        let magnitude = base.add(column).add(rows.add(filters)).least(last).greatest(all(0));
        let phase = magnitude.shift_right::<{ OCTAVE_BITS as i32 - 3 }>().and(all(PHASES as i32 - 1));
        let context = phase.or(dusty).or(above);
        let table = context.and(context_mask).multiply(all(TABLE));
        let sixteenths = magnitude.shift_right::<{ OCTAVE_BITS as i32 - 4 }>();
        let below = all(2).sub(sixteenths.and(all(15)));
        let slot = stream.slots();
        // SAFETY: a table has a symbol for each slot and a share for each symbol, and there are tables for
        // all contexts of the mask.
        let found = unsafe {
            FoundMagnitudes::look_up(
                kernel,
                tables,
                run.moves,
                table.shift_left::<2>().add(slot),
                table.add(all(SHARES)),
                below,
            )
        };
        let FoundMagnitudes { symbols, shares, moves } = found;
        if stream.active(all(1 << JOINT_BITS).is_greater(symbols)) != 0 {
            break;
        }
        let rest = slot.sub(shares.and(all(0xffff)));
        let quotient = stream.states.shift_right::<{ MAX_PRECISION as i32 }>();
        // SAFETY: so many steps were announced.
        unsafe { stream.advance(shares.shift_right::<16>().multiply(quotient).add(rest)) };

        let distance = symbols.shift_left::<2>().add(below).add(all(FURTHEST));
        sixteenths.store_unsigned_words(&mut expected[step]);
        distance.store_signed_words(&mut distances[step]);

        // SAFETY: the step is one of the run's.
        rows = rows.add(part(moves, unsafe { rates.of_rows(kernel, step) }));
        filters = filters.add(part(moves, rates.of_filters(kernel, &places)));
        let faded = filters.shift_right_signed::<8>().and(fading);
        filters = filters.sub(faded).without(places.advance());
        let dust = all(DUST).is_greater(distance);
        dusty = dust.and(all(LEFT as i32));
        // SAFETY: the step is one of the run's.
        unsafe { columns.store(step, column.add(part(moves, column_rates)), dust.and(all(ABOVE as i32))) };
        run.done += 1;
    }
    let (mut new_rows, mut new_filters, mut new_dusty) = ([0; 8], [0; 8], [0; 8]);
    rows.store(&mut new_rows);
    filters.store(&mut new_filters);
    dusty.store(&mut new_dusty);
    for lane in (0..MIXED_LANES).filter(|lane| run.lanes >> lane & 1 == 1) {
        run.states.rows[lane] = new_rows[lane];
        run.states.filters[lane] = new_filters[lane];
        run.states.dusty[lane] = new_dusty[lane] as u32;
    }
    places.finish(&mut run.filters);
    stream.finish(decoder);
}

/// The part of a move that is taken over at a rate.
#[inline(always)]
fn part<V: EightLanes>(moved: V, rate: V) -> V {
    moved.multiply(rate).shift_right_signed::<{ RATE_BITS as i32 }>()
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
    /// There must be a symbol at each place, and shares for all symbols behind each of `shares`.
    #[inline(always)]
    unsafe fn look_up(
        kernel: V::Kernel,
        tables: *const MixedTable,
        moves: &Moves,
        places: V,
        shares: V,
        below: V,
    ) -> Self {
        let (mut symbols, mut found, mut moved) = ([0; 8], [0; 8], [0; 8]);
        let (places, shares, below) = (places.pairs(), shares.pairs(), below.pairs());
        for lane in 0..8 {
            let (pair, shift) = (lane / 2, 32 * (lane % 2));
            let place = (places[pair] >> shift) as u32 as usize;
            // SAFETY: the caller vouches for the places.
            let symbol = usize::from(unsafe { tables.cast::<u8>().add(place).read() });
            let share = (shares[pair] >> shift) as u32 as usize + symbol;
            symbols[lane] = symbol as i32;
            // SAFETY: the caller vouches for the shares.
            found[lane] = unsafe { tables.cast::<i32>().add(share).read() };
            moved[lane] = moves[((below[pair] >> shift) as u32 as usize + 4 * symbol) & (moves.len() - 1)];
        }
        Self { symbols: V::of(kernel, symbols), shares: V::of(kernel, found), moves: V::of(kernel, moved) }
    }
}

/// The rates of the steps of a run.
struct StepRates<'a> {
    /// Where those of each lane's row begin.
    rows: [*const i32; MIXED_LANES],
    filters: &'a Rates,
}

impl<'a> StepRates<'a> {
    fn new(run: &MagnitudeRun<'a>) -> Self {
        let rates = run.row_rates.as_ptr();
        // SAFETY: there are more rates than that.
        let first = |column: usize| unsafe { rates.add(column.min(LAST_RATE)) };
        Self { rows: run.places.map(first), filters: run.filter_rates }
    }

    /// # Safety
    ///
    /// The step must be one of a run that has at most as many as a stretch.
    #[inline(always)]
    unsafe fn of_rows<V: EightLanes>(&self, kernel: V::Kernel, step: usize) -> V {
        // SAFETY: behind the last rate, there are as many as a run has steps.
        unsafe { V::load_each(kernel, &self.rows, step) }
    }

    #[inline(always)]
    fn of_filters<V: EightLanes>(&self, kernel: V::Kernel, places: &FilterRegisters<V>) -> V {
        if let Some(place) = places.common {
            return V::all(kernel, self.filters[(place as usize).min(LAST_RATE)]);
        }
        let places = places.each.least_unsigned(V::all(kernel, LAST_RATE as i32));
        // SAFETY: none is beyond the last.
        unsafe { V::look_up(self.filters.as_ptr(), places) }
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
    /// The step must be one of the run's.
    #[inline(always)]
    unsafe fn load<V: EightLanes>(&self, kernel: V::Kernel, step: usize) -> (V, V) {
        let [a, b, c, d, e, f, g, h] = self.0;
        // SAFETY: as many columns as there are steps follow each place.
        unsafe {
            let places = [
                a.add(step).cast_const().cast(),
                b.add(step).cast_const().cast(),
                c.add(step).cast_const().cast(),
                d.add(step).cast_const().cast(),
                e.add(step).cast_const().cast(),
                f.add(step).cast_const().cast(),
                g.add(step).cast_const().cast(),
                h.add(step).cast_const().cast(),
            ];
            V::load_pairs(kernel, places)
        }
    }

    /// Sets them.
    ///
    /// # Safety
    ///
    /// The step must be one of the run's.
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
