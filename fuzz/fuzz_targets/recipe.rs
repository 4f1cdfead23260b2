//! Recipes: any bytes as a recipe over operands that are cut from the rest of the input; all of the result, and parts of it, which must agree.
#![no_main]

use ztensor::recipe::Recipe;

/// Longer results tell nothing new.
const LONGEST: u64 = 1 << 16;

libfuzzer_sys::fuzz_target!(init: ztensor_fuzz::one_thread(), |data: &[u8]| {
    let Some((&[length, cut, start], rest)) = data.split_first_chunk::<3>() else { return };
    let (recipe, bytes) = rest.split_at(usize::from(length).min(rest.len()));
    let Ok(recipe) = Recipe::decode(recipe) else { return };
    assert_eq!(Recipe::decode(&recipe.encode()).expect("what was written is read"), recipe);
    let _ = recipe.describe();
    let operands: Vec<&[u8]> = bytes.chunks(usize::from(cut).max(1) * 16).collect();
    let lengths: Vec<u64> = operands.iter().map(|operand| operand.len() as u64).collect();
    let Ok(length) = recipe.length(&lengths) else { return };
    if length > LONGEST {
        return;
    }
    let mut all = vec![0; length as usize];
    recipe.apply(&&operands[..], &lengths, 0, &mut all).expect("what fits is applied");
    let start = usize::from(start).min(all.len());
    let mut part = vec![0; (all.len() - start) / 2];
    recipe.apply(&&operands[..], &lengths, start as u64, &mut part).expect("a part of it too");
    assert_eq!(part, all[start..start + part.len()]);
    assert!(recipe.apply(&&operands[..], &lengths, length, &mut [0]).is_err());
});
