//! Floats at maximum effort: the same symbols as in `float`, but the scales of rows, columns and convolution
//! filters are not stored: they are learnt from the elements before. Convolutions, whose filters each have a
//! scale of their own, gain most, and small tensors, which have no room for a description.
//!
//! `learner` has what is learnt of magnitudes and `sign_mixer` of signs, `lanes` the order in which eight
//! rows are coded at a time, `survey` what the encoder finds on its way through a block, `search` the choice
//! of parameters, `symbol_code` the tables.

mod decode;
mod encode;
mod fit;
mod heads;
mod lanes;
mod learner;
mod model;
mod search;
mod sign_mixer;
mod steps;
mod survey;
mod symbol_code;

pub(crate) use lanes::FilterPlaces;
pub(crate) use learner::{
    ABOVE, Column, DUST, FURTHEST, LAST_RATE, LEFT, MagnitudeRun, Moves, OCTAVE_BITS, PHASES, RATE_BITS,
    Rates,
};
pub(crate) use model::{AdaptiveModel, TensorGeometry};
pub(crate) use sign_mixer::{BIASES, FILTER_PLACES, NEIGHBOURHOODS, SignRun};
pub(crate) use steps::{MagnitudeDecoder, SignDecoder, Steps};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agreement::on_each;
    use crate::arch::Kernel;
    use crate::dtype::Dtype;
    use crate::frame::wire::Reader;
    use crate::transform::{Contents, Position, Transform};
    use proptest::prelude::*;

    fn geometry(row_length: usize, filter_length: usize, line_length: usize) -> TensorGeometry {
        TensorGeometry {
            row_length: Some(row_length),
            filter_length: Some(filter_length),
            line_length: Some(line_length),
        }
    }

    /// Encodes all blocks, decodes them with the model as it comes back from its bytes, and gives the size of
    /// everything.
    fn round_trip(dtype: Dtype, bytes: &[u8], geometry: TensorGeometry, block: usize) -> usize {
        let layout = dtype.float_layout().unwrap();
        let section = Contents { dtype: Some(dtype), length: bytes.len() };
        let (model, block) = AdaptiveModel::fit(layout, bytes, geometry, block).unwrap();
        let mut described = Vec::new();
        model.write(&mut described).unwrap();
        let mut reader = Reader::new(&described, "test");
        let read = AdaptiveModel::read(&mut reader, section).unwrap();
        reader.finish().unwrap();
        let mut size = described.len();
        for (index, part) in bytes.chunks(block).enumerate() {
            let (start, mut encoded) = (index * block / layout.width, Vec::new());
            model.encode(part, Position::element(start), &mut encoded).unwrap();
            for kernel in Kernel::available() {
                kernel.run(|| {
                    let (mut reader, mut decoded) = (Reader::new(&encoded, "test"), vec![0; part.len()]);
                    read.decode(&mut reader, Position::element(start), &mut decoded).unwrap();
                    reader.finish().unwrap();
                    assert!(decoded == part);
                });
            }
            let elements = part.len() / layout.width;
            let parts = read.parts(&mut Reader::new(&encoded, "test"), elements).unwrap();
            assert_eq!(parts.iter().map(|(_, length)| length).sum::<usize>(), encoded.len());
            size += encoded.len();
        }
        size
    }

    /// Numbers of about normal distribution.
    fn bell(count: usize) -> impl Iterator<Item = f32> {
        let mut state = 1u32;
        let mut uniform = move || {
            state = state.wrapping_mul(1664525).wrapping_add(1013904223);
            (state >> 8) as f32 / (1 << 24) as f32 - 0.5
        };
        (0..count).map(move |_| (0..6).map(|_| uniform()).sum())
    }

    fn bf16(values: impl Iterator<Item = f32>) -> Vec<u8> {
        values.flat_map(|value| ((value.to_bits() >> 16) as u16).to_le_bytes()).collect()
    }

    #[test]
    fn the_scales_of_filters_are_learnt() {
        let scale = |index: usize| [1.0, 0.01, 30.0, 0.3][index / 9 % 4];
        let scaled: Vec<f32> =
            bell(36 * 400).enumerate().map(|(index, value)| value * scale(index)).collect();
        let filters = round_trip(Dtype::Bf16, &bf16(scaled.iter().copied()), geometry(36 * 9, 9, 3), 1 << 20);
        let alike = round_trip(Dtype::Bf16, &bf16(bell(36 * 400)), geometry(36 * 9, 9, 3), 1 << 20);
        // Scales that differ by up to a factor of 3000 from filter to filter cost hardly more than a single
        // one.
        assert!(filters < alike + alike / 25, "{filters} {alike}");
        let wide: Vec<u8> = scaled.iter().flat_map(|value| value.to_le_bytes()).collect();
        round_trip(Dtype::F32, &wide, geometry(36 * 9, 9, 3), 10_000);
    }

    #[test]
    fn regular_signs_and_dead_rows_cost_little() {
        let plain = round_trip(Dtype::Bf16, &bf16(bell(40_000)), geometry(200, 1, 200), 1 << 20);
        let signs = [1.0, 1.0, -1.0, 1.0, -1.0];
        let regular = bell(40_000).enumerate().map(|(index, value)| value.abs() * signs[index % 200 % 5]);
        let regular = round_trip(Dtype::Bf16, &bf16(regular), geometry(200, 1, 200), 1 << 20);
        // A bit each, less what learning them takes.
        assert!(regular + 40_000 / 8 * 9 / 10 < plain, "{regular} {plain}");
        let dead = |index: usize| if index / 200 % 4 == 1 || index % 200 == 7 { 1e-30 } else { 1.0 };
        let dying = bell(40_000).enumerate().map(|(index, value)| value * dead(index));
        let dying = round_trip(Dtype::Bf16, &bf16(dying), geometry(200, 1, 200), 1 << 20);
        assert!(dying < plain + plain / 10, "{dying} {plain}");
    }

    /// Signs that repeat, in filters or not, and damaged blocks.
    #[test]
    fn kernels_agree_on_decode_magnitudes_and_decode_signs() {
        for (filter, line) in [(1, 180), (9, 3)] {
            let signs = [1.0, 1.0, -1.0, 1.0, -1.0, -1.0, 1.0, 1.0, -1.0];
            let bytes =
                bf16(bell(12_060).enumerate().map(|(index, value)| value.abs() * signs[index % 180 % 9]));
            let layout = Dtype::Bf16.float_layout().unwrap();
            let (model, _) =
                AdaptiveModel::fit(layout, &bytes, geometry(180, filter, line), 1 << 20).unwrap();
            assert!(model.signs);
            let mut block = Vec::new();
            model.encode(&bytes, Position::element(0), &mut block).unwrap();
            let decode = |block: &[u8]| {
                on_each(|| {
                    let (mut reader, mut out) = (Reader::new(block, "test"), vec![0; bytes.len()]);
                    model.decode(&mut reader, Position::element(0), &mut out).ok().map(|()| out)
                })
            };
            assert!(decode(&block).as_ref() == Some(&bytes));
            for place in (0..block.len()).step_by(block.len() / 30) {
                block[place] ^= 0x11;
                decode(&block);
                block[place] ^= 0x11;
            }
        }
    }

    proptest! {
        #[test]
        fn any_heads_survive_in_any_geometry(
            heads in proptest::collection::vec(prop_oneof![any::<u16>(), 0x3c00u16..0x3e00, Just(0)], 1..3000),
            dtype in proptest::sample::select(vec![Dtype::Bf16, Dtype::F16]),
            (row, filter, line) in (1usize..200, 1usize..10, 1usize..10),
            block in 1usize..3000,
        ) {
            let bytes: Vec<u8> = heads.iter().flat_map(|head| head.to_le_bytes()).collect();
            round_trip(dtype, &bytes, geometry(row * filter, filter, line), 2 * block);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        #[test]
        fn any_heads_survive_in_lanes(
            heads in proptest::collection::vec(prop_oneof![any::<u16>(), 0x3c00u16..0x3e00, Just(0)], 500..3000),
            (row, filter, line) in (1usize..300, 1usize..10, 1usize..10),
            (repeats, rest, block) in (4usize..10, 0usize..500, 8000usize..20_000),
        ) {
            let bytes: Vec<u8> = heads.iter().flat_map(|head| head.to_le_bytes()).collect();
            let bytes = [bytes.repeat(repeats), bytes[..2 * rest].to_vec()].concat();
            round_trip(Dtype::Bf16, &bytes, geometry(row * filter, filter, line), 2 * block);
        }

        #[test]
        fn damaged_blocks_end_in_an_error_or_other_values(
            places in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 1..8),
            (row, signs) in (1usize..2000, any::<bool>()),
        ) {
            let values = bell(12_000).enumerate().map(|(index, value)| if signs && index % 3 == 0 { value.abs() } else { value });
            let bytes = bf16(values);
            let layout = Dtype::Bf16.float_layout().unwrap();
            let (model, _) = AdaptiveModel::fit(layout, &bytes, geometry(row, 1, row), 1 << 20).unwrap();
            let mut encoded = Vec::new();
            model.encode(&bytes, Position::element(0), &mut encoded).unwrap();
            for (place, change) in places {
                encoded[place.index(bytes.len().min(4000))] ^= change;
            }
            let mut decoded = vec![0; bytes.len()];
            let _ = model.decode(&mut Reader::new(&encoded, "test"), Position::element(0), &mut decoded);
        }
    }
}
