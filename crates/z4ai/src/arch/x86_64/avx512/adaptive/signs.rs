//! Signs of the adaptive coder with AVX-512: the eight lanes of a step in one register, and the tables of a
//! run in others: each sign depends on the one before it, so the latency of two loads would be in that chain.
#![allow(unsafe_code)]

use super::lanes::MaskedWordRegisters;
use crate::arch::adaptive::lanes::FilterRegisters;
use crate::arch::eight::EightLanes;
use crate::arch::x86_64::avx2::{Avx2, EightInts, look_up};
use crate::entropy::mixing::{PROBABILITY_BITS, SUM_BITS, SUMS};
use crate::entropy::rans::{MIXED_LANES, MixedDecoder};
use crate::transform::adaptive::{BIASES, FILTER_PLACES, NEIGHBOURHOODS, SignRun};
use std::arch::x86_64::*;

/// Classes of magnitudes that elements have.
const MET_MAGNITUDE_CLASSES: usize = 6;
/// Added to the sum of odds, which is from 0 on then.
const MIDDLE: i32 = (SUMS as i32 / 2) << SUM_BITS;

/// Decodes the signs of a run.
#[target_feature(
    enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx2,bmi2,popcnt"
)]
pub(in crate::arch) fn decode(kernel: Avx2, run: &mut SignRun, decoder: &mut MixedDecoder) {
    let steps = run.steps;
    assert!(run.classes.len() >= steps && run.lessons.len() >= steps);
    assert!(run.places.iter().all(|place| place + steps <= run.columns.len()));
    let mut stream = MaskedWordRegisters::new(decoder, run.lanes, steps);
    let columns = run.columns.as_mut_ptr();
    // SAFETY: the places are inside, and as many columns as there are steps follow each.
    let places = run.places.map(|place| unsafe { columns.add(place) });
    let sources = places.map(<*mut i32>::cast_const);
    let all = |number: i32| _mm256_set1_epi32(number);
    let mut rows = EightInts::load(kernel, run.rows).register();
    let mut filters = FilterRegisters::<EightInts>::new(kernel, run.filters, run.lanes);
    let last = run.first.checked_sub(1).and_then(|last| run.signs.get(last));
    let mut left = last.copied().unwrap_or(0);
    let mut corner = run.above.of(run.first.wrapping_sub(1), run.signs);
    // A bias of -1 to 1 in eleven steps.
    let bias_step = |bias: __m256i| {
        let fivefold = _mm256_add_epi32(_mm256_slli_epi32::<2>(bias), bias);
        _mm256_srai_epi32::<15>(_mm256_add_epi32(fivefold, all(11 << 14)))
    };
    let bias_odds: [OddsTable; 2] = std::array::from_fn(|half| OddsTable::new(run.bias_odds, half, MIDDLE));
    // SAFETY: numbers with and without a sign are stored alike.
    let chances = unsafe { &*std::ptr::from_ref(run.chances).cast::<[i32; 8 * SUMS]>() };
    let chances: [OddsTable; MET_MAGNITUDE_CLASSES] =
        std::array::from_fn(|class| OddsTable::new(chances, class, 0));
    for step in 0..steps {
        let above = run.above.of(run.first + step, run.signs);
        // SAFETY: `step` is below the number of steps, with which the lengths above agree; indices are made
        // to be inside their tables.
        let negative = unsafe {
            let column = EightInts::load_each(kernel, &sources, step).register();
            let most = FILTER_PLACES as i32 - 1;
            let place = _mm256_slli_epi32::<3>(_mm256_min_epu32(filters.each.register(), all(most)));
            let neighbours = _mm256_maskz_set1_epi32(above, 1);
            let neighbours = _mm256_mask_or_epi32(neighbours, corner, neighbours, all(4));
            let neighbours = _mm256_mask_or_epi32(neighbours, left, neighbours, all(2));
            let by_place = _mm256_or_si256(place, neighbours);
            let place_odds = match filters.common {
                // The eight that it can be are looked up in a register.
                Some(place) => {
                    let eight = run.place_odds.as_ptr().add(NEIGHBOURHOODS * place.clamp(0, most) as usize);
                    _mm256_permutevar8x32_epi32(_mm256_loadu_si256(eight.cast()), neighbours)
                }
                None => look_up(run.place_odds.as_ptr(), by_place),
            };
            let across = _mm256_mullo_epi32(bias_step(column), all(BIASES as i32));
            let by_bias = _mm256_and_si256(_mm256_add_epi32(across, bias_step(rows)), all(127));
            let upper = _mm256_test_epi32_mask(by_bias, all(64));
            let bias_odds =
                _mm256_mask_blend_epi32(upper, bias_odds[0].look_up(by_bias), bias_odds[1].look_up(by_bias));
            let sum = _mm256_srai_epi32::<{ SUM_BITS as i32 }>(_mm256_add_epi32(bias_odds, place_odds));
            let sum = _mm256_max_epi32(_mm256_min_epi32(sum, all(SUMS as i32 - 1)), _mm256_setzero_si256());
            let class = _mm_loadl_epi64(run.classes.as_ptr().add(step).cast());
            let class = _mm256_and_si256(_mm256_cvtepu8_epi32(class), all(7));
            let by_sum = _mm256_or_si256(_mm256_slli_epi32::<{ SUMS.ilog2() as i32 }>(class), sum);
            let lesson = _mm256_or_si256(_mm256_slli_epi32::<16>(by_sum), _mm256_slli_epi32::<8>(by_place));
            let lesson = _mm256_or_si256(lesson, by_bias);
            _mm256_storeu_si256(run.lessons.as_mut_ptr().add(step).cast(), lesson);

            // All classes are looked up: the lanes of each are known long before the sum is.
            let of_class = |number: usize| {
                let lanes = _mm256_cmpeq_epi32_mask(class, all(number as i32));
                _mm256_maskz_mov_epi32(lanes, chances[number].look_up(sum))
            };
            let first = _mm256_or_si256(_mm256_or_si256(of_class(0), of_class(1)), of_class(2));
            let second = _mm256_or_si256(_mm256_or_si256(of_class(3), of_class(4)), of_class(5));
            let chance = _mm256_or_si256(first, second);
            let slot = stream.slots();
            let negative = _mm256_cmpgt_epi32_mask(chance, slot);
            let quotient = _mm256_srli_epi32::<{ PROBABILITY_BITS as i32 }>(stream.states);
            let share = _mm256_mullo_epi32(chance, quotient);
            let others = _mm256_sub_epi32(_mm256_sub_epi32(stream.states, share), chance);
            stream.advance(_mm256_mask_add_epi32(others, negative, share, slot));

            let side = _mm256_mask_blend_epi32(negative, all(-1 << 15), all(1 << 15));
            let further = _mm256_sub_epi32(side, column);
            let further = _mm256_add_epi32(_mm256_slli_epi32::<2>(further), further);
            let column = _mm256_add_epi32(column, _mm256_srai_epi32::<6>(further));
            EightInts::new(kernel, column).store_each(&places, step);
            let side = _mm256_mask_blend_epi32(negative, all(-1 << 11), all(1 << 11));
            rows = _mm256_add_epi32(side, _mm256_sub_epi32(rows, _mm256_srai_epi32::<4>(rows)));
            filters.advance();
            negative
        };
        if let Some(target) = run.signs.get_mut(run.first + step) {
            *target = negative & run.lanes;
        }
        (left, corner) = (negative, above);
    }
    let mut new_rows = [0; MIXED_LANES];
    EightInts::new(kernel, rows).store(&mut new_rows);
    for lane in (0..MIXED_LANES).filter(|lane| run.lanes >> lane & 1 == 1) {
        run.rows[lane] = new_rows[lane];
    }
    stream.finish(decoder);
}

/// Sixty-four numbers of 16 bits in two registers.
struct OddsTable(__m512i, __m512i);

impl OddsTable {
    /// Those from 64 times `part` on, each with something added, which must fit then.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx2")]
    fn new<const COUNT: usize>(numbers: &[i32; COUNT], part: usize, added: i32) -> Self {
        let added = _mm512_set1_epi32(added);
        let quarter = |quarter: usize| {
            let numbers = &numbers[64 * part + 16 * quarter..][..16];
            // SAFETY: there are 16 numbers of 32 bits.
            let numbers = unsafe { _mm512_loadu_si512(numbers.as_ptr().cast()) };
            _mm512_cvtepi32_epi16(_mm512_add_epi32(numbers, added))
        };
        let half = |first: usize| {
            let low = _mm512_castsi256_si512(quarter(first));
            _mm512_inserti64x4::<1>(low, quarter(first + 1))
        };
        Self(half(0), half(2))
    }

    /// The numbers at eight indices, modulo 64, without a sign.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx2")]
    fn look_up(&self, indices: __m256i) -> __m256i {
        let indices = _mm512_castsi256_si512(indices);
        let found = _mm512_maskz_permutex2var_epi16(0x5555, self.0, indices, self.1);
        _mm512_castsi512_si256(found)
    }
}
