//! Integers, records, bytes and text; and sections of several blocks, copies and segments.

use super::*;

pub fn add(cases: &mut Cases) {
    let values = matrix(30, 150, 21);
    cases.efforts("int8", &integers::<1>(&values, 50.0), Options::new(Dtype::I8));
    cases.efforts("uint8", &integers::<1>(&values, 90.0), Options::new(Dtype::U8));
    cases.efforts("int16", &integers::<2>(&values, 9000.0), Options::new(Dtype::I16).shape([30, 150]));
    cases.efforts("uint16", &integers::<2>(&values, 70_000.0), Options::new(Dtype::U16));
    cases.efforts("int32", &integers::<4>(&values, 1e8), Options::new(Dtype::I32));
    cases.efforts("uint32", &integers::<4>(&values, 1e7), Options::new(Dtype::U32));
    cases.efforts("int64", &integers::<8>(&values, 1e12), Options::new(Dtype::I64));
    cases.efforts("uint64", &integers::<8>(&values, 1e15), Options::new(Dtype::U64));
    // The last record is unfinished.
    let blocks = records(&matrix(60, 160, 23));
    let of_records = |dtype| Options::new(dtype).records(record_layout());
    cases.efforts("records", &blocks[..blocks.len() - 5], of_records(Dtype::U8));
    cases.add("records-opaque", &blocks, Options::default().records(record_layout()));
    let (layout, blocks) = byte_records(&matrix(60, 150, 1));
    cases.add("records-bytes", &blocks, Options::new(Dtype::U8).records(layout));
    // Groups whose least values differ, so that scales and offsets tell where levels are.
    let skewed: Vec<f32> = matrix(240, 160, 24)
        .iter()
        .enumerate()
        .map(|(at, value)| value + (at / 16 * 2_654_435 % 64) as f32 / 200.0 - 0.15)
        .collect();
    let (layout, blocks) = affine_records(&skewed);
    cases.efforts("records-given", &blocks, Options::new(Dtype::U8).records(layout));
    // Bytes of which row and column tell something.
    let (scaled, of) = (matrix(96, 192, 31), |dtype| Options::new(dtype).shape([96u64, 192]));
    cases.add("scaled-fp8-e4m3", &f8s(&scaled, 4), of(Dtype::F8E4M3));
    cases.add("scaled-fp8-e5m2", &f8s(&scaled, 5), of(Dtype::F8E5M2));
    let codes: Vec<u8> = f8s(&scaled, 5).iter().map(|code| code & 0x7f).collect();
    cases.add("scaled-uint8", &codes, of(Dtype::U8));
    let levels: Vec<u8> =
        scaled.iter().map(|value| (128.0 + value * 300.0).clamp(0.0, 255.0).round() as u8).collect();
    cases.add("scaled-uint8-centred", &levels, of(Dtype::U8));
    // Of a few values, in streams of many states.
    for (states, side) in [(32, 300), (64, 320)] {
        let coarse: Vec<u8> = matrix(side, side, 33).iter().map(|value| (value.abs() * 24.0) as u8).collect();
        let shaped = Options::new(Dtype::U8).shape([side as u64, side as u64]);
        cases.add(&format!("scaled-states-{states}"), &coarse, shaped);
    }
    let bools: Vec<u8> = values.iter().map(|&value| u8::from(value > 0.05)).collect();
    cases.efforts("bool", &bools, Options::new(Dtype::Bool));
    cases.efforts("text", &b"all models are wrong, some are useful; ".repeat(60), Options::default());
    cases.efforts("constant", &f32s(&[3.5; 1000]), Options::new(Dtype::F32).shape([1000]));
    cases.efforts("nothing", &[], Options::new(Dtype::F32).shape([0, 3]));
    let mut random = Random::new(22);
    let noise: Vec<u8> = (0..200).map(|_| random.next() as u8).collect();
    cases.efforts("stored", &noise, Options::default());
    let named = Options { numpy_dtype: Some(">f4".into()), ..Options::new(Dtype::F32) };
    cases.efforts("numpy-dtype", &f32s(&values[..100]), named);
}

pub fn add_sections(cases: &mut Cases) {
    let mut random = Random::new(31);
    // Blocks that are coded, constant and verbatim in one section.
    let mut blocks = bf16s(&matrix(512, 256, 32).iter().map(|value| value.abs()).collect::<Vec<_>>());
    blocks.iter_mut().for_each(|byte| *byte &= 0xf8);
    let dense = blocks.clone();
    blocks.extend(std::iter::repeat_n([0, 0x3c], 1 << 17).flatten());
    blocks.extend((0..1 << 18).map(|_| random.next() as u8));
    cases.add("blocks", &blocks, Options::new(Dtype::I16));
    let text: Vec<u8> = (0..180_000u64)
        .flat_map(|line| format!("{} {:x};", line / 7, line * line % 1000).into_bytes())
        .collect();
    cases.add("blocks-opaque", &text, Options::default());
    let layer = bf16s(&matrix(100, 100, 33));
    let tied = [&layer[..], &bf16s(&matrix(5, 100, 34)), &layer].concat();
    cases.efforts("copies", &tied, Options::new(Dtype::Bf16).shape([205, 100]));
    // Tensors one after the other that have nothing in common.
    let coarse: Vec<u8> = dense.chunks_exact(2).flat_map(|pair| [pair[0] & 0x80, pair[1]]).collect();
    let wide: Vec<u8> = (0..1 << 16)
        .map(|_| (30 + random.below(40)) << 7)
        .flat_map(|pattern| (pattern as u16).to_le_bytes())
        .collect();
    let segments = [&coarse[..1 << 17], &wide, &coarse[..1 << 17]].concat();
    cases.add("segments", &segments, Options::new(Dtype::Bf16));
    cases.add("stream", &segments[..150_001], Options::new(Dtype::Bf16));
    if let Some(case) = cases.0.last_mut() {
        case.streamed = true;
    }
}
