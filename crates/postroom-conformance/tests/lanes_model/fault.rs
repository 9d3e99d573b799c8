//! What goes wrong, and how often it may.

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fault {
    /// A worker is killed.
    Kill,
    /// A lease ends while its worker still runs.
    Zombie,
    Rollback,
    Retry,
    /// A message fails for good.
    Fail,
    Expire,
    Revive,
    Pause,
}

/// How many of each fault may still happen.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Faults([u8; 8]);

impl Faults {
    pub(crate) fn of(faults: &[Fault]) -> Self {
        let mut left = [0; 8];
        faults.iter().for_each(|fault| left[*fault as usize] += 1);
        Self(left)
    }

    pub(crate) fn left(self, fault: Fault) -> u8 {
        self.0[fault as usize]
    }

    pub(crate) fn may(self, fault: Fault) -> bool {
        self.left(fault) > 0
    }

    pub(crate) fn spend(mut self, fault: Fault) -> Self {
        self.0[fault as usize] -= 1;
        self
    }
}
