//! The times in texts of speech models: which tokens may follow, and the segments between times.

/// The tokens of times, which stand in pairs around segments.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TimeTokens {
    /// The token of the beginning of a window; each further token is a step later.
    pub(crate) zero: u32,
    /// The token that ends texts.
    pub(crate) end: u32,
    /// The greatest step of the first time, if there is a bound.
    pub(crate) most_first: Option<usize>,
}

/// A segment of a window with its tokens, including the times.
#[derive(Debug, PartialEq)]
pub(crate) struct TimedTokens<'t> {
    /// The steps from the beginning of the window to that of the segment.
    pub(crate) start: usize,
    /// The steps from the beginning of the window to the end of the segment.
    pub(crate) end: usize,
    pub(crate) tokens: &'t [u32],
}

impl TimeTokens {
    pub(crate) fn is_time(&self, token: u32) -> bool {
        token >= self.zero
    }

    fn step(&self, token: u32) -> usize {
        token.saturating_sub(self.zero) as usize
    }

    /// Makes it impossible that a token is chosen which cannot follow the written ones: a text begins with a
    /// time, times do not decrease, and all but the first and the last stand in pairs. Where times together
    /// are likelier than any other token, only a time may follow.
    pub(crate) fn constrain(&self, logits: &mut [f32], written: &[u32]) {
        const NEVER: f32 = f32::NEG_INFINITY;
        let (zero, vocabulary) = (self.zero as usize, logits.len());
        logits[zero - 1] = NEVER; // the token of texts without times
        let is_behind_time = written.last().is_some_and(|&token| self.is_time(token));
        let is_behind_pair = written.len() < 2 || self.is_time(written[written.len() - 2]);
        match (is_behind_time, is_behind_pair) {
            (true, true) => logits[zero..].fill(NEVER),
            (true, false) => logits[..self.end as usize].fill(NEVER),
            (false, _) => {}
        }
        if let Some(last) = written.iter().rfind(|&&token| self.is_time(token)) {
            let may_repeat = is_behind_time && !is_behind_pair;
            let least = *last as usize + usize::from(!may_repeat);
            logits[zero..least.min(vocabulary)].fill(NEVER);
        }
        if written.is_empty() {
            logits[..zero].fill(NEVER);
            let bound = self.most_first.map_or(vocabulary, |most| (zero + most).saturating_add(1));
            logits[bound.min(vocabulary)..].fill(NEVER);
        }
        let (others, times) = logits.split_at_mut(zero);
        let most = |logits: &[f32]| logits.iter().copied().fold(NEVER, f32::max);
        let most_time = most(times);
        let total: f32 = times.iter().map(|logit| (logit - most_time).exp()).sum();
        if most_time + total.ln() > most(others) {
            others.fill(NEVER);
        }
    }

    /// Splits the text of a window, which is `steps` long, at its pairs of times. Returns the segments, and
    /// the step of the last pair if the text behind it has no time at its end: the next window begins there.
    pub(crate) fn split<'t>(&self, tokens: &'t [u32], steps: usize) -> (Vec<TimedTokens<'t>>, Option<usize>) {
        let is_time = |at: usize| self.is_time(tokens[at]);
        let mut cuts: Vec<usize> = (1..tokens.len()).filter(|&at| is_time(at - 1) && is_time(at)).collect();
        let Some(last) = cuts.last_mut() else {
            let time = tokens.iter().rfind(|&&token| self.is_time(token)).map(|&token| self.step(token));
            let end = time.filter(|&step| step > 0).unwrap_or(steps);
            return (vec![TimedTokens { start: 0, end, tokens }], None);
        };
        let count = tokens.len();
        let again = match !is_time(count - 2) && is_time(count - 1) {
            true => {
                cuts.push(count);
                None
            }
            false => {
                let step = self.step(tokens[*last - 1]);
                *last += 1; // the second time of the pair, which the text after it had
                Some(step)
            }
        };
        let mut start = 0;
        let segment = |&cut: &usize| {
            let tokens = &tokens[start..cut];
            start = cut;
            let is_last = cut == cuts[cuts.len() - 1];
            let end = tokens[tokens.len() - if is_last && again.is_some() { 2 } else { 1 }];
            TimedTokens { start: self.step(tokens[0]), end: self.step(end), tokens }
        };
        (cuts.iter().map(segment).collect(), again.filter(|&step| step > 0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMES: TimeTokens = TimeTokens { zero: 100, end: 90, most_first: Some(5) };

    /// The expected values come from `_retrieve_segment` of transformers 5.
    #[test]
    fn texts_are_split_at_pairs_of_times() {
        type Case<'a> = (&'a [u32], &'a [(usize, usize, usize)], Option<usize>);
        let cases: [Case<'_>; 8] = [
            (&[100, 1, 2, 105], &[(0, 5, 4)], None),
            (&[100, 1, 2], &[(0, 30, 3)], None),
            (&[100], &[(0, 30, 1)], None),
            (&[100, 1, 105, 105, 2, 109], &[(0, 5, 3), (5, 9, 3)], None),
            (&[100, 1, 105, 106, 2, 3], &[(0, 5, 4)], Some(5)),
            (&[100, 1, 105, 105], &[(0, 5, 4)], Some(5)),
            (&[100, 1, 105, 105, 2, 109, 109, 3, 4], &[(0, 5, 3), (5, 9, 4)], Some(9)),
            (&[103, 1, 105, 107, 2, 109, 110, 3, 112], &[(3, 5, 3), (7, 9, 3), (10, 12, 3)], None),
        ];
        for (tokens, expected, again) in cases {
            let (segments, found) = TIMES.split(tokens, 30);
            let segments: Vec<_> =
                segments.iter().map(|segment| (segment.start, segment.end, segment.tokens.len())).collect();
            assert_eq!((segments.as_slice(), found), (expected, again), "{tokens:?}");
        }
        assert_eq!(TIMES.split(&[], 30).0, [TimedTokens { start: 0, end: 30, tokens: &[] }]);
    }

    /// The tokens that may follow, if all are alike but the text token 1 is far likelier than the others.
    fn allowed(written: &[u32]) -> Vec<u32> {
        let mut logits = vec![0.0; 110];
        logits[1] = 9.0;
        TIMES.constrain(&mut logits, written);
        (0..110).filter(|&token| logits[token as usize] > f32::NEG_INFINITY).collect()
    }

    #[test]
    fn times_stand_in_pairs_and_do_not_decrease() {
        assert_eq!(allowed(&[]), (100..106).collect::<Vec<_>>(), "a text begins with an early time");
        assert_eq!(allowed(&[103]), (0..99).collect::<Vec<_>>(), "words follow the first time");
        let later = (0..99).chain(104..110).collect::<Vec<_>>();
        assert_eq!(allowed(&[103, 1]), later, "words or a later time");
        let ends = (105..110).collect::<Vec<_>>();
        assert_eq!(allowed(&[103, 1, 105]), ends, "times are likelier than the end");
        assert_eq!(allowed(&[103, 1, 105, 105]), (0..99).collect::<Vec<_>>());
        let mut logits = vec![0.0; 110];
        TIMES.constrain(&mut logits, &[103, 1]);
        assert!(logits[..100].iter().all(|logit| logit.is_infinite()), "times together are likelier");
    }
}
