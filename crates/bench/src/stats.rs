//! Medians and percentiles.

/// The middle of some numbers; nothing of nothing.
pub(crate) fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let upper = *sorted.get(sorted.len() / 2)?;
    if sorted.len() % 2 == 1 {
        return Some(upper);
    }
    let lower = *sorted.get(sorted.len() / 2 - 1)?;
    Some((lower + upper) / 2.0)
}

/// The value below which a part (0 to 1) of the samples lies.
pub(crate) fn percentile(samples: &[u64], part: f64) -> Option<u64> {
    let mut sorted = samples.to_vec();
    sorted.sort_unstable();
    let last = sorted.len().checked_sub(1)?;
    sorted.get((last as f64 * part.clamp(0.0, 1.0)).round() as usize).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0]), Some(3.0));
        assert_eq!(median(&[9.0, 1.0, 5.0]), Some(5.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 100.0]), Some(3.0));
    }

    #[test]
    fn percentiles() {
        let samples: Vec<u64> = (1..=101).rev().collect();
        assert_eq!(percentile(&samples, 0.5), Some(51));
        assert_eq!(percentile(&samples, 0.99), Some(100));
        assert_eq!(percentile(&samples, 7.0), Some(101));
        assert_eq!(percentile(&[], 0.5), None);
    }
}
