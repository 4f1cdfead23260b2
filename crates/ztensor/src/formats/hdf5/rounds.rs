//! Work on many parts of one file, shared out to all cores.

use rayon::prelude::*;

use super::image::Image;
use crate::error::Result;
use crate::limits::Budget;

/// Tasks that each core gets in a round.
const TASKS: usize = 8;

/// Does the tasks and gives what each made, in order. Each may use up the allowances that are left; they are settled after each round, so that
/// hostile files gain no more than a round.
pub(super) fn work<'a, T: Send, M: Send>(
    image: &Image<'a>,
    budget: &mut Budget,
    tasks: impl ExactSizeIterator<Item = T>,
    work: impl Fn(&Image<'a>, &mut Budget, T) -> M + Sync,
) -> Result<Vec<M>> {
    let count = tasks.len();
    if count == 1 {
        return Ok(tasks.map(|task| work(image, budget, task)).collect());
    }
    let mut made = Vec::with_capacity(count);
    let mut tasks = tasks;
    while made.len() < count {
        let (share, account) = (image.share(), budget.share());
        let round: Vec<T> = tasks.by_ref().take(TASKS * rayon::current_num_threads()).collect();
        let done: Vec<_> = round
            .into_par_iter()
            .map(|task| {
                let (image, mut budget) = (share.image(), account.share());
                let result = work(&image, &mut budget, task);
                (result, share.allowance() - image.left(), budget.charged())
            })
            .collect();
        for (result, work, memory) in done {
            image.charge(work)?;
            budget.charge(memory)?;
            made.push(result);
        }
    }
    Ok(made)
}
