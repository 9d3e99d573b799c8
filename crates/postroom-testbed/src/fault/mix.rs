//! Random faults: the same seed gives the same faults.

use super::kind::Fault;

#[derive(Debug)]
pub(super) struct Mix {
    random: fastrand::Rng,
    weighted: Vec<(u32, Fault)>,
}

impl Mix {
    pub(super) fn new(seed: u64, weighted: Vec<(u32, Fault)>) -> Self {
        Self { random: fastrand::Rng::with_seed(seed), weighted }
    }

    /// Draws a fault, which is always [`Fault::Pass`] if nothing has a weight.
    pub(super) fn draw(&mut self) -> Fault {
        let total: u64 = self.weighted.iter().map(|(weight, _)| u64::from(*weight)).sum();
        let ticket = self.random.u64(..total.max(1));
        let mut end = 0;
        let drawn = self.weighted.iter().find(|(weight, _)| {
            end += u64::from(*weight);
            ticket < end
        });
        drawn.map_or(Fault::Pass, |(_, fault)| *fault)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draws(seed: u64, weighted: &[(u32, Fault)]) -> Vec<Fault> {
        let mut mix = Mix::new(seed, weighted.into());
        (0..1_000).map(|_| mix.draw()).collect()
    }

    #[test]
    fn a_seed_draws_the_same_faults_again_and_another_seed_others() {
        let weighted = [(1, Fault::Pass), (1, Fault::Reset)];
        assert_eq!(draws(7, &weighted), draws(7, &weighted));
        assert_ne!(draws(7, &weighted), draws(8, &weighted));
    }

    #[test]
    fn a_fault_comes_as_often_as_its_weight_says() {
        let drawn = draws(7, &[(3, Fault::Pass), (0, Fault::HalfOpen), (1, Fault::Reset)]);
        let count = |fault| drawn.iter().filter(|drawn| **drawn == fault).count();
        assert_eq!(count(Fault::HalfOpen), 0);
        assert!((650..850).contains(&count(Fault::Pass)), "{}", count(Fault::Pass));
        assert_eq!(count(Fault::Pass) + count(Fault::Reset), 1_000);
    }

    #[test]
    fn without_any_weight_everything_passes() {
        assert!(draws(7, &[]).iter().all(|drawn| *drawn == Fault::Pass));
        assert!(draws(7, &[(0, Fault::Reset)]).iter().all(|drawn| *drawn == Fault::Pass));
    }
}
