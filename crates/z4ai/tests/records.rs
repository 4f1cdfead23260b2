//! Records: every way of reading gives the same bytes, fields take less than what they lie between, and
//! layouts that are none are refused.
#![allow(clippy::unwrap_used)]

#[allow(dead_code)]
mod cases;

use cases::{affine_records, matrix, moved, record_layout, records};
use std::io::Write;
use z4ai::{BitArray, BitSlice, Dtype, Effort, ErrorKind, Field, Given, Info, Options, RecordLayout};

fn options() -> Options {
    Options::new(Dtype::U8).records(record_layout())
}

#[test]
fn fields_take_less_than_bytes_and_come_back_whole_and_in_parts() {
    // Several blocks, and an unfinished record.
    let mut bytes = records(&matrix(1000, 1024, 3));
    bytes.truncate(bytes.len() - 7);
    for effort in [Effort::Fast, Effort::Default, Effort::Max] {
        let frame = z4ai::compress(&bytes, &options().effort(effort)).unwrap();
        let plain = z4ai::compress(&bytes, &Options::new(Dtype::U8).effort(effort)).unwrap();
        assert!(frame.len() * 100 < plain.len() * 97, "{} of {}", frame.len(), plain.len());
        assert!(z4ai::decompress(&frame).unwrap() == bytes);
        assert!(Info::read(&frame).is_ok());
        let opened = z4ai::Frame::open(&frame).unwrap();
        for (start, length) in [(0, 1), (5, 100), (262_000, 1000), (bytes.len() - 9, 9), (300_001, 290_000)] {
            let mut out = vec![0xaa; length];
            opened.read_into(start as u64..(start + length) as u64, &mut out).unwrap();
            assert!(out == bytes[start..start + length], "{start}");
        }
        let mut encoder = z4ai::Encoder::new(Vec::new(), options().effort(effort)).unwrap();
        encoder.write_all(&bytes).unwrap();
        assert!(z4ai::decompress(&encoder.finish().unwrap()).unwrap() == bytes);
    }
}

#[test]
fn levels_take_less_where_other_fields_tell_of_them() {
    let values: Vec<f32> = matrix(400, 1024, 7)
        .iter()
        .enumerate()
        .map(|(at, value)| value + (at / 16 * 2_654_435 % 64) as f32 / 200.0 - 0.15)
        .collect();
    let (layout, mut bytes) = affine_records(&values);
    bytes.truncate(bytes.len() - 3);
    let plain = RecordLayout::new(layout.length(), layout.fields()).unwrap();
    let size = |layout: &RecordLayout, effort| {
        let options = Options::new(Dtype::U8).records(layout.clone()).effort(effort);
        let frame = z4ai::compress(&bytes, &options).unwrap();
        assert!(z4ai::decompress(&frame).unwrap() == bytes);
        let opened = z4ai::Frame::open(&frame).unwrap();
        let mut out = vec![0xaa; 70_000];
        opened.read_into(200_001..270_001, &mut out).unwrap();
        assert!(out == bytes[200_001..270_001]);
        frame.len()
    };
    let (given, alone) = (size(&layout, Effort::Default), size(&plain, Effort::Default));
    assert!(given * 100 < alone * 99, "{given} of {alone}");
    assert!(size(&layout, Effort::Max) <= size(&layout, Effort::Default));
    size(&layout, Effort::Fast);
}

#[test]
fn hints_that_name_other_fields_are_refused() {
    let layout = || affine_records(&[0.5; 32]).0;
    let zero =
        |scales, offsets, scale_factor| Given::ZeroPoint { scales, offsets, scale_factor, offset_factor: 1 };
    for (field, given) in [
        (4, Given::Field(4)),
        (4, Given::Field(9)),
        (9, Given::Field(2)),
        (3, Given::Field(0)),
        (0, Given::Field(0)),
        (4, zero(2, 3, 2)),
        (4, zero(0, 3, 0)),
        (3, zero(2, 3, 0)),
    ] {
        let error = layout().given(field, given).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidShape, "{field} {given:?}");
    }
}

#[test]
fn few_records_and_none_come_back() {
    let bytes = records(&matrix(2, 1024, 4));
    for length in [0, 1, 23, 24, 25, 24 * 15, 24 * 16 + 3, 24 * 40] {
        let frame = z4ai::compress(&bytes[..length], &options()).unwrap();
        assert!(z4ai::decompress(&frame).unwrap() == bytes[..length], "{length}");
    }
}

#[test]
fn records_of_a_later_version_are_coded_against_those_of_the_first() {
    let base = records(&matrix(100, 1024, 5));
    let tuned = moved(&base, 1, 4, 20, 6);
    let delta = z4ai::compress_delta(&tuned, &base, &options()).unwrap();
    assert!(delta.len() < z4ai::compress(&tuned, &options()).unwrap().len() / 2, "{}", delta.len());
    assert!(z4ai::Frame::open(&delta).unwrap().against(&base).unwrap().read().unwrap() == tuned);
}

#[test]
fn bytes_that_do_not_look_like_records_take_no_more_than_without_a_layout() {
    let text = b"all models are wrong, some are useful; ".repeat(1000);
    let (with, without) =
        (z4ai::compress(&text, &options()), z4ai::compress(&text, &Options::new(Dtype::U8)));
    assert!(with.unwrap().len() <= without.unwrap().len());
    // Elements of two bytes are no records.
    let halves = Options::new(Dtype::F16).records(record_layout());
    assert!(z4ai::decompress(&z4ai::compress(&text, &halves).unwrap()).unwrap() == text);
}

#[test]
fn layouts_that_break_a_rule_are_refused() {
    let array = |dimensions: &[usize], bits, start, strides: &[usize]| {
        Field::new(Dtype::U8, [BitArray::new(dimensions, [BitSlice::new(bits, start, strides)])])
    };
    for (length, fields, rule) in [
        (0, vec![Field::bytes(0, 1)], "of no bytes"),
        (5000, vec![Field::bytes(0, 5000)], "of no bytes, or of more"),
        (4, vec![], "without fields"),
        (4, vec![Field::bytes(0, 5)], "outside its records"),
        (4, vec![Field::bytes(0, 3)], "bits that no element has"),
        (4, vec![Field::bytes(0, 4), Field::bytes(1, 1)], "bits that two elements have"),
        (4, vec![array(&[4], 4, 12, &[8])], "outside its records"),
        (4, vec![array(&[3], 8, 4, &[8])], "from one byte into the next"),
        (4, vec![array(&[4], 9, 0, &[8])], "slices of no bits or more than 8"),
        (4, vec![array(&[4], 8, 0, &[])], "other strides than dimensions"),
        (4, vec![array(&[usize::MAX, 3], 8, 0, &[8, 8])], "no elements"),
        (4, vec![array(&[0], 8, 0, &[8])], "no elements"),
        (4, vec![array(&[2, 2], 8, 0, &[usize::MAX, 8])], "outside its records"),
        (16, vec![Field::number(Dtype::Complex128, 0)], "complex"),
        (1, vec![Field::new(Dtype::U8, [])], "no arrays"),
    ] {
        let error = RecordLayout::new(length, fields).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidShape);
        assert!(error.to_string().contains(rule), "{error}: {rule}");
    }
    let wide = BitArray::new([1], [BitSlice::new(8, 0, [8]), BitSlice::new(8, 8, [8])]);
    assert!(RecordLayout::new(2, [Field::new(Dtype::U8, [wide])]).is_err());
}
