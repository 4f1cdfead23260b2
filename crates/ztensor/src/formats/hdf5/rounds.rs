//! Work on many parts of one file, shared out to all cores.

use rayon::prelude::*;

use super::image::Image;
use crate::error::Result;
use crate::limits::Budget;

/// Tasks that each core gets in a round.
const TASKS: usize = 2;

/// Works through the items, `task` of them at a time, and gives what each task made, in order. Each task may use up the allowances that are left;
/// they are settled after each round, so that hostile files gain no more than a round.
pub(super) fn work<'a, I: Sync, T: Send>(
    image: &Image<'a>,
    budget: &mut Budget,
    items: &[I],
    task: usize,
    work: impl Fn(&Image<'a>, &mut Budget, &[I]) -> T + Sync,
) -> Result<Vec<T>> {
    if items.len() <= task {
        return Ok(vec![work(image, budget, items)]);
    }
    let mut made = Vec::with_capacity(items.len().div_ceil(task));
    for round in items.chunks(task * TASKS * rayon::current_num_threads()) {
        let (share, account) = (image.share(), budget.share());
        let tasks: Vec<_> = round
            .par_chunks(task)
            .map(|items| {
                let (image, mut budget) = (share.image(), account.share());
                let result = work(&image, &mut budget, items);
                (result, share.allowance() - image.left(), budget.charged())
            })
            .collect();
        for (result, work, memory) in tasks {
            image.charge(work)?;
            budget.charge(memory)?;
            made.push(result);
        }
    }
    Ok(made)
}
