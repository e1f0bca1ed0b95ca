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

/// How far the median of some numbers may be off: twice its standard error, as their distances from it show. Nothing of nothing.
pub(crate) fn noise(values: &[f64]) -> Option<f64> {
    /// The standard deviation of normal values is so many times the median distance from their middle.
    const DEVIATION: f64 = 1.4826;
    /// The standard error of a median is so many times that of a mean.
    const OF_A_MEDIAN: f64 = 1.2533;
    let middle = median(values)?;
    let distances: Vec<f64> = values.iter().map(|value| (value - middle).abs()).collect();
    Some(2.0 * OF_A_MEDIAN * DEVIATION * median(&distances)? / (values.len() as f64).sqrt())
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
    fn noise_comes_from_the_spread() {
        assert_eq!(noise(&[]), None);
        assert_eq!(noise(&[2.0]), Some(0.0));
        assert_eq!(noise(&[1.0, 1.0, 1.0, 9.0]), Some(0.0), "one bad moment is not noise");
        let close = noise(&[0.99, 1.0, 1.01, 1.0, 0.99]).unwrap();
        let wide = noise(&[0.8, 1.0, 1.2, 1.1, 0.9]).unwrap();
        assert!(close < 0.03 && wide > 0.1, "{close} {wide}");
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
