//! A failing script made short: whole stretches are taken out, then single steps, as long as the same check fails.

use super::{Run, Script, run};

/// The shortest script found that fails the same check, and its run.
pub fn shrink(script: &Script, tries: usize) -> (Script, Run) {
    let mut best = script.clone();
    let mut outcome = run(&best);
    let Some((step, wrong)) = outcome.wrong.clone() else { return (best, outcome) };
    let mut left = tries;
    let mut attempt = |steps: Vec<super::Step>, best: &mut Script, outcome: &mut Run| -> bool {
        if left == 0 || steps.len() >= best.steps.len() {
            return false;
        }
        left -= 1;
        let shorter = Script { steps, ..best.clone() };
        let again = run(&shorter);
        let same = again.wrong.as_ref().is_some_and(|(_, w)| w.check == wrong.check);
        if same {
            *best = shorter;
            *outcome = again;
        }
        same
    };
    // Nothing after the failing step matters.
    let mut kept = best.steps.clone();
    kept.truncate(step);
    attempt(kept, &mut best, &mut outcome);
    let mut chunk = (best.steps.len() / 2).max(1);
    loop {
        let mut at = 0;
        let mut shorter = false;
        while at < best.steps.len() {
            let mut steps = best.steps.clone();
            steps.drain(at..(at + chunk).min(steps.len()));
            if attempt(steps, &mut best, &mut outcome) {
                shorter = true;
            } else {
                at += chunk;
            }
        }
        if chunk > 1 {
            chunk /= 2;
        } else if !shorter {
            return (best, outcome);
        }
    }
}
