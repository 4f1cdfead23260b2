//! Magnitudes of the adaptive coder with AVX2: the eight lanes of a step in one register. What each lane has
//! learnt stays in registers for a whole run.
#![allow(unsafe_code)]

use super::lanes::{FilterRegisters, WordRegisters, load, load_each, store};
use crate::arch::x86_64::avx2::rans::{look_up, pairs_of};
use crate::entropy::rans::{MIXED_LANES, MixedTable};
use crate::entropy::table::MAX_PRECISION;
use crate::transform::adaptive::{
    ABOVE, Column, DUST, FURTHEST, LAST_RATE, LEFT, MagnitudeDecoder, MagnitudeRun, Moves, OCTAVE_BITS,
    PHASES, RATE_BITS, Rates,
};
use crate::transform::float::JOINT_BITS;
use std::arch::x86_64::*;

/// The numbers of 32 bits in a table, and where its shares begin.
const TABLE: i32 = (size_of::<MixedTable>() / 4) as i32;
const SHARES: i32 = 1 << (MAX_PRECISION - 2);

/// Decodes the next steps of a run, up to one with an escape.
#[target_feature(enable = "avx2,bmi2,popcnt")]
pub(in crate::arch) fn decode(decoder: &mut MagnitudeDecoder, first: usize, run: &mut MagnitudeRun) {
    let MagnitudeDecoder { stream: decoder, context_mask, expected, distances, .. } = decoder;
    let (context_mask, expected, distances) =
        (*context_mask, &mut expected[first..], &mut distances[first..]);
    let steps = run.steps;
    assert!(expected.len() >= steps && distances.len() >= steps);
    assert!(run.places.iter().all(|place| place + steps <= run.columns.len()));
    assert!(LAST_RATE + steps <= run.row_rates.len());
    assert!(decoder.tables.len() > context_mask);
    let tables = decoder.tables.as_ptr();
    let mut stream = WordRegisters::new(decoder, run.lanes, steps - run.done);
    let columns = Columns::new(run);
    let rates = StepRates::new(run);
    let mut places = FilterRegisters::new(run.kernels, run.lanes);
    let (mut rows, mut kernels) = (load(&run.states.rows), load(&run.states.kernels));
    let mut dusty = load(&run.states.dusty.map(|dusty| dusty as i32));
    let all = |number: i32| _mm256_set1_epi32(number);
    let (base, last, fading) = (all(run.base), all(run.last), all(run.fading));
    let column_rates = load(&run.column_rates);
    let context_mask = all(context_mask as i32);
    let part = |moved: __m256i, rate: __m256i| {
        _mm256_srai_epi32::<{ RATE_BITS as i32 }>(_mm256_mullo_epi32(moved, rate))
    };
    while run.done < steps {
        let step = run.done;
        // SAFETY: `step` is below the number of steps, with which the lengths above agree. A table has a
        // symbol for each slot and a share for each symbol, and there are tables for all contexts of the
        // mask.
        unsafe {
            let (column, above) = columns.load(step);
            let sum = _mm256_add_epi32(_mm256_add_epi32(base, column), _mm256_add_epi32(rows, kernels));
            let magnitude = _mm256_max_epi32(_mm256_min_epi32(sum, last), _mm256_setzero_si256());
            let phase = _mm256_srli_epi32::<{ OCTAVE_BITS as i32 - 3 }>(magnitude);
            let phase = _mm256_and_si256(phase, all(PHASES as i32 - 1));
            let context = _mm256_or_si256(_mm256_or_si256(phase, dusty), above);
            let table = _mm256_mullo_epi32(_mm256_and_si256(context, context_mask), all(TABLE));
            let sixteenths = _mm256_srli_epi32::<{ OCTAVE_BITS as i32 - 4 }>(magnitude);
            let below = _mm256_sub_epi32(all(2), _mm256_and_si256(sixteenths, all(15)));
            let slot = stream.slots();
            let found = FoundMagnitudes::look_up(
                tables,
                run.moves,
                _mm256_add_epi32(_mm256_slli_epi32::<2>(table), slot),
                _mm256_add_epi32(table, all(SHARES)),
                below,
            );
            let (symbol, share) = (found.symbols, found.shares);
            let escapes = _mm256_cmpgt_epi32(all(1 << JOINT_BITS), symbol);
            if stream.active(escapes) != 0 {
                break;
            }
            let rest = _mm256_sub_epi32(slot, _mm256_and_si256(share, all(0xffff)));
            let quotient = _mm256_srli_epi32::<{ MAX_PRECISION as i32 }>(stream.states);
            let states = _mm256_mullo_epi32(_mm256_srli_epi32::<16>(share), quotient);
            stream.advance(_mm256_add_epi32(states, rest));

            let beyond = _mm256_add_epi32(_mm256_slli_epi32::<2>(symbol), below);
            let distance = _mm256_add_epi32(beyond, all(FURTHEST));
            put(_mm256_packus_epi32(sixteenths, sixteenths), expected.as_mut_ptr().add(step).cast());
            put(_mm256_packs_epi32(distance, distance), distances.as_mut_ptr().add(step).cast());

            let moved = found.moves;
            rows = _mm256_add_epi32(rows, part(moved, rates.of_rows(step)));
            kernels = _mm256_add_epi32(kernels, part(moved, rates.of_kernels(&places)));
            let faded = _mm256_and_si256(_mm256_srai_epi32::<8>(kernels), fading);
            kernels = _mm256_andnot_si256(places.advance(), _mm256_sub_epi32(kernels, faded));
            let dust = _mm256_cmpgt_epi32(all(DUST), distance);
            dusty = _mm256_and_si256(dust, all(LEFT as i32));
            let column = _mm256_add_epi32(column, part(moved, column_rates));
            columns.store(step, column, _mm256_and_si256(dust, all(ABOVE as i32)));
        }
        run.done += 1;
    }
    let (mut new_rows, mut new_kernels, mut new_dusty) = ([0; 8], [0; 8], [0; 8]);
    store(rows, &mut new_rows);
    store(kernels, &mut new_kernels);
    store(dusty, &mut new_dusty);
    for lane in (0..MIXED_LANES).filter(|lane| run.lanes >> lane & 1 == 1) {
        run.states.rows[lane] = new_rows[lane];
        run.states.kernels[lane] = new_kernels[lane];
        run.states.dusty[lane] = new_dusty[lane] as u32;
    }
    places.finish(&mut run.kernels);
    stream.finish(decoder);
}

/// What is looked up for the eight lanes of a step.
struct FoundMagnitudes {
    symbols: __m256i,
    shares: __m256i,
    moves: __m256i,
}

impl FoundMagnitudes {
    /// The symbols at `places`, in bytes from the first table on; their shares, in numbers of 32 bits from it
    /// on, behind `shares`; and the moves of four times the symbol and `below`, modulo their number. A symbol
    /// goes on to the next tables as it is, since in a register it would wait for the other lanes, and their
    /// way there and back takes longer than the look-up.
    ///
    /// # Safety
    ///
    /// There must be a symbol at each place, and shares for all symbols behind each of `shares`.
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn look_up(
        tables: *const MixedTable,
        moves: &Moves,
        places: __m256i,
        shares: __m256i,
        below: __m256i,
    ) -> Self {
        let (places, shares, below) = (pairs_of(places), pairs_of(shares), pairs_of(below));
        let half = |pairs: &[u64; 4], lane: usize| (pairs[lane / 2] >> (32 * (lane % 2))) as u32 as usize;
        let one = |lane: usize| {
            // SAFETY: the caller vouches for the places.
            unsafe {
                let symbol = usize::from(tables.cast::<u8>().add(half(&places, lane)).read());
                let share = tables.cast::<i32>().add(half(&shares, lane) + symbol).read();
                let moved = moves[(half(&below, lane) + 4 * symbol) & (moves.len() - 1)];
                (symbol as i32, share, moved)
            }
        };
        let lanes = [one(0), one(1), one(2), one(3), one(4), one(5), one(6), one(7)];
        let all = |of: fn(&(i32, i32, i32)) -> i32| {
            let [a, b, c, d, e, f, g, h] = &lanes;
            _mm256_setr_epi32(of(a), of(b), of(c), of(d), of(e), of(f), of(g), of(h))
        };
        Self { symbols: all(|lane| lane.0), shares: all(|lane| lane.1), moves: all(|lane| lane.2) }
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
    /// The step must be one of a run that has at most as many as a stretch.
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn of_rows(&self, step: usize) -> __m256i {
        // SAFETY: behind the last rate, there are as many as a run has steps.
        unsafe { load_each(&self.rows, step) }
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn of_kernels(&self, places: &FilterRegisters) -> __m256i {
        match places.common {
            Some(place) => _mm256_set1_epi32(self.kernels[(place as usize).min(LAST_RATE)]),
            None => {
                let index = _mm256_min_epu32(places.each, _mm256_set1_epi32(LAST_RATE as i32));
                // SAFETY: no index is beyond the last.
                unsafe { look_up(self.kernels.as_ptr(), index) }
            }
        }
    }
}

/// Stores eight numbers that were packed to 16 bits, in the low half of each half.
///
/// # Safety
///
/// `target` must be writable for 16 bytes.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn put(packed: __m256i, target: *mut __m128i) {
    let packed = _mm256_castsi256_si128(_mm256_permute4x64_epi64::<0b11_01_10_00>(packed));
    // SAFETY: the caller vouches for the target.
    unsafe { _mm_storeu_si128(target, packed) };
}

/// The column that each lane begins in.
struct Columns([*mut Column; MIXED_LANES]);

impl Columns {
    /// For a run whose places are inside its columns.
    fn new(run: &mut MagnitudeRun) -> Self {
        let columns = run.columns.as_mut_ptr();
        // SAFETY: the places are inside.
        Self(run.places.map(|place| unsafe { columns.add(place) }))
    }

    /// The values of the columns in a step, and whether they are dusty.
    ///
    /// # Safety
    ///
    /// The step must be one of the run's.
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn load(&self, step: usize) -> (__m256i, __m256i) {
        // SAFETY: as many columns as there are steps follow each place; a column has two numbers of 32 bits.
        let pair = |lane: usize| unsafe { self.0[lane].add(step).cast::<i64>().read_unaligned() };
        let first = _mm256_setr_epi64x(pair(0), pair(1), pair(4), pair(5));
        let second = _mm256_setr_epi64x(pair(2), pair(3), pair(6), pair(7));
        let (first, second) = (_mm256_castsi256_ps(first), _mm256_castsi256_ps(second));
        let values = _mm256_shuffle_ps::<0b10_00_10_00>(first, second);
        let dusty = _mm256_shuffle_ps::<0b11_01_11_01>(first, second);
        (_mm256_castps_si256(values), _mm256_castps_si256(dusty))
    }

    /// Sets them.
    ///
    /// # Safety
    ///
    /// The step must be one of the run's.
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn store(&self, step: usize, values: __m256i, dusty: __m256i) {
        let (first, second) = (_mm256_unpacklo_epi32(values, dusty), _mm256_unpackhi_epi32(values, dusty));
        let halves = |both: __m256i| (_mm256_castsi256_si128(both), _mm256_extracti128_si256::<1>(both));
        let ((a, c), (b, d)) = (halves(first), halves(second));
        for (lane, two) in [a, b, c, d].into_iter().enumerate() {
            // SAFETY: as many columns as there are steps follow each place; a column has two numbers of 32
            // bits.
            unsafe {
                _mm_storel_epi64(self.0[2 * lane].add(step).cast(), two);
                _mm_storeh_pd(self.0[2 * lane + 1].add(step).cast(), _mm_castsi128_pd(two));
            }
        }
    }
}
