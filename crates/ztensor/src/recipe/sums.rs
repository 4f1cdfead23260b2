//! Sums as programs that merge models compute them: every product and every sum rounded to the precision that they work in.

use super::node::{Precision, Voice};

/// Numbers times coefficients, as they add up.
pub(super) struct Total {
    precision: Precision,
    /// The sum so far where it is kept in f32, or in f64.
    narrow: Vec<f32>,
    wide: Vec<f64>,
}

impl Total {
    pub(super) fn new(precision: Precision, count: usize) -> Total {
        let is_wide = precision == Precision::F64;
        Total {
            precision,
            narrow: vec![0.0; if is_wide { 0 } else { count }],
            wide: vec![0.0; if is_wide { count } else { 0 }],
        }
    }

    pub(super) fn add(&mut self, coefficient: f64, values: Vec<f32>) {
        if self.precision == Precision::F64 {
            let pairs = self.wide.iter_mut().zip(&values);
            return pairs.for_each(|(sum, value)| *sum += coefficient * f64::from(*value));
        }
        let products = products(self.precision, coefficient, values);
        self.narrow.iter_mut().zip(&products).for_each(|(sum, product)| *sum += product);
    }

    pub(super) fn divided(mut self, divisor: f64) -> Vec<f32> {
        if self.precision == Precision::F64 {
            return self.wide.into_iter().map(|sum| (sum / divisor) as f32).collect();
        }
        self.precision.number().round(&mut self.narrow);
        let divisor = rounded(self.precision, divisor);
        if divisor != 1.0 {
            self.narrow.iter_mut().for_each(|sum| *sum /= divisor);
            self.precision.number().round(&mut self.narrow);
        }
        self.narrow
    }
}

fn rounded(precision: Precision, number: f64) -> f32 {
    let mut number = [number as f32];
    precision.number().round(&mut number);
    number[0]
}

fn products(precision: Precision, coefficient: f64, mut values: Vec<f32>) -> Vec<f32> {
    let coefficient = rounded(precision, coefficient);
    if coefficient != 1.0 {
        values.iter_mut().for_each(|value| *value *= coefficient);
    }
    precision.number().round(&mut values);
    values
}

/// The sums of those products whose sign the sum of all has. In f64 nothing is counted: it is computed in f32.
pub(super) fn consensus(
    precision: Precision,
    normalised: bool,
    voices: &[Voice],
    values: Vec<Vec<f32>>,
    count: usize,
) -> Vec<f32> {
    let weights: Vec<f32> = voices.iter().map(|voice| rounded(precision, voice.weight)).collect();
    let heard = voices.iter().zip(values).map(|(voice, mut values)| {
        let threshold = voice.threshold as f32;
        let loud = |value: &f32| value.abs() >= threshold;
        values.iter_mut().filter(|value| !loud(value)).for_each(|value| *value = 0.0);
        products(precision, voice.weight, values)
    });
    let heard: Vec<Vec<f32>> = heard.collect();
    let mut all = vec![0.0f32; count];
    for products in &heard {
        all.iter_mut().zip(products).for_each(|(sum, product)| *sum += product);
    }
    precision.number().round(&mut all);
    let (mut sums, mut divisors) = (vec![0.0f32; count], vec![0.0f32; count]);
    for (products, weight) in heard.iter().zip(&weights) {
        for ((product, all), (sum, divisor)) in
            products.iter().zip(&all).zip(sums.iter_mut().zip(&mut divisors))
        {
            if (*product > 0.0 && *all >= 0.0) || (*product < 0.0 && *all < 0.0) {
                *sum += product;
                *divisor += weight;
            }
        }
    }
    precision.number().round(&mut sums);
    if normalised {
        precision.number().round(&mut divisors);
        let pairs = sums.iter_mut().zip(&divisors).filter(|(_, divisor)| **divisor != 0.0);
        pairs.for_each(|(sum, divisor)| *sum /= divisor);
        precision.number().round(&mut sums);
    }
    sums
}
