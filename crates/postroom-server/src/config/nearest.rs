//! Suggestions for misspelt names.

/// The candidate that differs least, if it differs by little.
pub(super) fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    within(name, candidates, (name.chars().count() / 3).clamp(1, 3))
}

/// The candidate that differs least, by at most `limit` letters.
pub(super) fn within<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>, limit: usize) -> Option<&'a str> {
    let distances = candidates.into_iter().map(|candidate| (distance(name, candidate), candidate));
    distances.filter(|(distance, _)| *distance <= limit).min().map(|(_, candidate)| candidate)
}

/// How many letters must be added, left out, changed, or swapped with their neighbour.
fn distance(one: &str, other: &str) -> usize {
    let (one, other): (Vec<char>, Vec<char>) = (one.chars().collect(), other.chars().collect());
    let mut rows = vec![vec![0; other.len() + 1]; one.len() + 1];
    for (i, row) in rows.iter_mut().enumerate() {
        row[0] = i;
    }
    rows[0] = (0..=other.len()).collect();
    for i in 1..=one.len() {
        for j in 1..=other.len() {
            let changed = rows[i - 1][j - 1] + usize::from(one[i - 1] != other[j - 1]);
            let mut least = changed.min(rows[i - 1][j] + 1).min(rows[i][j - 1] + 1);
            if i > 1 && j > 1 && one[i - 1] == other[j - 2] && one[i - 2] == other[j - 1] {
                least = least.min(rows[i - 2][j - 2] + 1);
            }
            rows[i][j] = least;
        }
    }
    rows[one.len()][other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_meant_is_found_and_nothing_far_away() {
        let keys = ["batch", "lease", "poll", "poll_max", "concurrency", "grace"];
        for (typed, meant) in [
            ("concurency", Some("concurrency")),
            ("bacth", Some("batch")),
            ("pol", Some("poll")),
            ("pollmax", Some("poll_max")),
            ("leases", Some("lease")),
            ("colour", None),
            ("x", None),
        ] {
            assert_eq!(nearest(typed, keys), meant, "{typed}");
        }
    }
}
