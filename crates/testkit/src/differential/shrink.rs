//! Shrinks a long dialogue with a difference to a short one.

use super::generate::{Episode, Step};

/// Maximum replays per difference.
const MAX_REPLAYS: usize = 250;

/// Removes steps while `differs` returns `true` for the rest.
///
/// The removed pieces get smaller, from halves to single steps, as in delta debugging; the last
/// `kept` steps stay.
pub(super) fn shrink(
    mut episode: Episode,
    kept: usize,
    mut differs: impl FnMut(&Episode) -> bool,
) -> Episode {
    let mut replays = 0;
    let mut piece = episode.steps.len() / 2;
    while piece > 0 {
        let mut at = 0;
        let mut removed = false;
        while at + piece + kept <= episode.steps.len() {
            if replays == MAX_REPLAYS {
                return episode;
            }
            replays += 1;
            let candidate = without(&episode, at, piece);
            if differs(&candidate) {
                episode = candidate;
                removed = true;
            } else {
                at += piece;
            }
        }
        if !removed || piece > 1 {
            piece /= 2;
        }
    }
    episode
}

fn without(episode: &Episode, at: usize, count: usize) -> Episode {
    let (head, tail) = (&episode.steps[..at], &episode.steps[at + count..]);
    let steps: Vec<Step> = head.iter().chain(tail).cloned().collect();
    Episode { steps, multi: episode.multi }
}

#[cfg(test)]
mod tests {
    use super::super::compare::Policy;
    use super::*;

    #[test]
    fn only_the_needed_steps_stay() {
        let step = |n: usize| Step {
            connection: 0,
            args: vec![n.to_string().into_bytes()],
            policy: Policy::Exact,
        };
        let episode = Episode { steps: (0..100).map(step).collect(), multi: false };
        let has = |e: &Episode, n: &str| e.steps.iter().any(|s| s.args[0] == n.as_bytes());
        let small = shrink(episode, 1, |e| has(e, "17") && has(e, "60") && has(e, "99"));
        let left: Vec<_> = small.steps.iter().map(|s| s.args[0].clone()).collect();
        assert_eq!(left, [b"17".to_vec(), b"60".to_vec(), b"99".to_vec()]);
    }
}
