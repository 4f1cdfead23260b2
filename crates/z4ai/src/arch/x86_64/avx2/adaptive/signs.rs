//! Signs of the adaptive coder with AVX2: the eight lanes of a step in one register.
#![allow(unsafe_code)]

use super::lanes::{FilterRegisters, WordRegisters, lanes_of, load, load_each, store};
use crate::arch::x86_64::avx2::rans::look_up;
use crate::entropy::mixing::{PROBABILITY_BITS, SUM_BITS, SUMS};
use crate::entropy::rans::{MIXED_LANES, MixedDecoder};
use crate::transform::adaptive::{BIASES, FILTER_PLACES, NEIGHBOURHOODS, SignRun};
use std::arch::x86_64::*;

/// Decodes the signs of a run.
#[target_feature(enable = "avx2,bmi2,popcnt")]
pub(in crate::arch) fn decode(run: &mut SignRun, decoder: &mut MixedDecoder) {
    let steps = run.steps;
    assert!(run.classes.len() >= steps && run.lessons.len() >= steps);
    assert!(run.places.iter().all(|place| place + steps <= run.columns.len()));
    let mut stream = WordRegisters::new(decoder, run.lanes, steps);
    let columns = run.columns.as_mut_ptr();
    // SAFETY: the places are inside, and as many columns as there are steps follow each.
    let places = run.places.map(|place| unsafe { columns.add(place) });
    let sources = places.map(<*mut i32>::cast_const);
    let all = |number: i32| _mm256_set1_epi32(number);
    let mut rows = load(run.rows);
    let mut kernels = FilterRegisters::new(run.kernels, run.lanes);
    let last = run.first.checked_sub(1).and_then(|last| run.signs.get(last));
    let mut left = lanes_of(last.copied().unwrap_or(0));
    let mut corner = lanes_of(run.above.of(run.first.wrapping_sub(1), run.signs));
    // A bias of -1 to 1 in eleven steps.
    let bias_step = |bias: __m256i| {
        let fivefold = _mm256_add_epi32(_mm256_slli_epi32::<2>(bias), bias);
        _mm256_srai_epi32::<15>(_mm256_add_epi32(fivefold, all(11 << 14)))
    };
    for step in 0..steps {
        let above = lanes_of(run.above.of(run.first + step, run.signs));
        // SAFETY: `step` is below the number of steps, with which the lengths above agree; indices are made
        // to be inside their tables.
        let negative = unsafe {
            let column = load_each(&sources, step);
            let most = FILTER_PLACES as i32 - 1;
            let place = _mm256_slli_epi32::<3>(_mm256_min_epu32(kernels.each, all(most)));
            let neighbours = _mm256_or_si256(_mm256_and_si256(left, all(2)), _mm256_and_si256(above, all(1)));
            let neighbours = _mm256_or_si256(neighbours, _mm256_and_si256(corner, all(4)));
            let by_place = _mm256_or_si256(place, neighbours);
            let place_odds = match kernels.common {
                // The eight that it can be are looked up in a register.
                Some(place) => {
                    let eight = run.place_odds.as_ptr().add(NEIGHBOURHOODS * place.clamp(0, most) as usize);
                    _mm256_permutevar8x32_epi32(_mm256_loadu_si256(eight.cast()), neighbours)
                }
                None => look_up(run.place_odds.as_ptr(), by_place),
            };
            let across = _mm256_mullo_epi32(bias_step(column), all(BIASES as i32));
            let by_bias = _mm256_and_si256(_mm256_add_epi32(across, bias_step(rows)), all(127));
            let odds = _mm256_add_epi32(look_up(run.bias_odds.as_ptr(), by_bias), place_odds);
            let sum = _mm256_add_epi32(_mm256_srai_epi32::<{ SUM_BITS as i32 }>(odds), all(SUMS as i32 / 2));
            let sum = _mm256_max_epi32(_mm256_min_epi32(sum, all(SUMS as i32 - 1)), _mm256_setzero_si256());
            let class = _mm_loadl_epi64(run.classes.as_ptr().add(step).cast());
            let class = _mm256_and_si256(_mm256_cvtepu8_epi32(class), all(7));
            let by_sum = _mm256_or_si256(_mm256_slli_epi32::<{ SUMS.ilog2() as i32 }>(class), sum);
            let lesson = _mm256_or_si256(_mm256_slli_epi32::<16>(by_sum), _mm256_slli_epi32::<8>(by_place));
            let lesson = _mm256_or_si256(lesson, by_bias);
            _mm256_storeu_si256(run.lessons.as_mut_ptr().add(step).cast(), lesson);

            let chance = look_up(run.chances.as_ptr().cast::<i32>(), by_sum);
            let slot = stream.slots();
            let negative = _mm256_cmpgt_epi32(chance, slot);
            let quotient = _mm256_srli_epi32::<{ PROBABILITY_BITS as i32 }>(stream.states);
            let share = _mm256_mullo_epi32(chance, quotient);
            let others = _mm256_sub_epi32(_mm256_sub_epi32(stream.states, share), chance);
            stream.advance(_mm256_blendv_epi8(others, _mm256_add_epi32(share, slot), negative));

            // 2^15 or -2^15.
            let side = _mm256_sub_epi32(_mm256_and_si256(negative, all(1 << 16)), all(1 << 15));
            let further = _mm256_sub_epi32(side, column);
            let further = _mm256_add_epi32(_mm256_slli_epi32::<2>(further), further);
            let column = _mm256_add_epi32(column, _mm256_srai_epi32::<6>(further));
            store_each(column, &places, step);
            let side = _mm256_srai_epi32::<4>(side);
            rows = _mm256_add_epi32(rows, _mm256_sub_epi32(side, _mm256_srai_epi32::<4>(rows)));
            negative
        };
        kernels.advance();
        if let Some(target) = run.signs.get_mut(run.first + step) {
            *target = stream.active(negative);
        }
        (left, corner) = (negative, above);
    }
    let mut new_rows = [0; MIXED_LANES];
    store(rows, &mut new_rows);
    for lane in (0..MIXED_LANES).filter(|lane| run.lanes >> lane & 1 == 1) {
        run.rows[lane] = new_rows[lane];
    }
    stream.finish(decoder);
}

/// Stores a number to each of eight places, `offset` further on.
///
/// # Safety
///
/// Each of the places must be writable at this offset.
#[inline]
#[target_feature(enable = "avx2")]
pub(in crate::arch) unsafe fn store_each(numbers: __m256i, places: &[*mut i32; MIXED_LANES], offset: usize) {
    let mut each = [0; MIXED_LANES];
    store(numbers, &mut each);
    for (number, place) in each.into_iter().zip(places) {
        // SAFETY: the caller vouches for the places.
        unsafe { place.add(offset).write(number) };
    }
}
