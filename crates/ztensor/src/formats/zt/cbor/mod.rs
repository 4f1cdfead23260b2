//! The part of CBOR (RFC 8949) that `.zt` manifests use. Written here because manifests are hostile input: the decoder checks every length
//! before it allocates, bounds nesting, and in its strict mode refuses everything that is not the Core Deterministic Encoding.

mod decode;
mod encode;

pub(crate) use decode::Decoder;
pub(crate) use encode::Encoder;

use crate::error::Result;
use crate::tensor::Value;

impl Value {
    /// The value in CBOR, in Core Deterministic Encoding.
    pub fn to_cbor(&self) -> Vec<u8> {
        let mut encoder = Encoder::deterministic();
        encoder.value(self);
        encoder.finish()
    }

    /// Reads a value from CBOR in Core Deterministic Encoding, with at most `depth` nested containers; everything else is refused.
    pub fn from_cbor(bytes: &[u8], depth: usize) -> Result<Value> {
        let mut decoder = Decoder::strict(bytes, depth);
        let value = decoder.value()?;
        decoder.finish()?;
        Ok(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::{Attributes, Value};
    use proptest::prelude::*;

    fn values() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::Bool),
            (-(1i128 << 64)..(1i128 << 64)).prop_map(Value::Integer),
            any::<f64>().prop_filter("NaN is not equal to itself", |v| !v.is_nan()).prop_map(Value::Float),
            ".{0,12}".prop_map(Value::Text),
            proptest::collection::vec(any::<u8>(), 0..300).prop_map(Value::Bytes),
        ];
        leaf.prop_recursive(4, 32, 6, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..6).prop_map(Value::List),
                proptest::collection::btree_map(".{0,6}", inner, 0..6)
                    .prop_map(|map| Value::Map(map.into_iter().collect::<Attributes>())),
            ]
        })
    }

    proptest! {
        #[test]
        fn every_value_survives(value in values()) {
            let mut encoder = Encoder::new();
            encoder.value(&value);
            let bytes = encoder.finish();
            prop_assert_eq!(Decoder::new(&bytes, 64).value().unwrap(), value);
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = Decoder::new(&bytes, 64).value();
            let _ = Decoder::strict(&bytes, 32).value();
        }
    }

    #[test]
    fn indefinite_lengths_are_read() {
        // {_ "a": [_ 1, 2], "b": (_ "x", "y")}
        let bytes = b"\xbf\x61a\x9f\x01\x02\xff\x61b\x7f\x61x\x61y\xff\xff";
        let Value::Map(map) = Decoder::new(bytes, 64).value().unwrap() else { panic!("not a map") };
        assert_eq!(map["a"], Value::List(vec![Value::Integer(1), Value::Integer(2)]));
        assert_eq!(map["b"], Value::Text("xy".into()));
        assert!(Decoder::strict(bytes, 32).value().is_err());
    }

    #[test]
    fn strict_mode_refuses_what_is_not_deterministic() {
        let refused: &[(&str, &[u8])] = &[
            ("non-shortest head", b"\x18\x01"),
            ("unsorted keys", b"\xa2\x61b\x01\x61a\x02"),
            ("duplicate keys", b"\xa2\x61a\x01\x61a\x02"),
            ("tag", b"\xc1\x01"),
            ("float that fits a shorter form", b"\xfb\x3f\xf0\0\0\0\0\0\0"),
        ];
        for (rule, bytes) in refused {
            assert!(Decoder::strict(bytes, 32).value().is_err(), "{rule}");
        }
        assert!(Decoder::strict(b"\xa2\x61a\x01\x61b\xf9\x3c\x00", 32).value().is_ok());
    }

    #[test]
    fn nesting_and_absurd_lengths_are_refused() {
        assert!(Decoder::new(&[0x81; 100_000], 64).value().is_err());
        assert!(Decoder::new(&[0x81; 100_000], 64).skip().is_err());
        assert!(Decoder::new(b"\x9b\xff\xff\xff\xff\xff\xff\xff\xff", 64).value().is_err());
        assert!(Decoder::new(b"\x7b\xff\xff\xff\xff\xff\xff\xff\xff", 64).value().is_err());
    }
}
