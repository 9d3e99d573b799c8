//! What a run shows: numbers, and whether they are good enough.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use serde::Serialize;

/// The outcome of one run.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Report {
    /// Where the messages were.
    pub backend: &'static str,
    /// Everything random came from it.
    pub seed: u64,
    /// Processes killed.
    pub kills: u32,
    /// Orders placed.
    pub messages: u64,
    /// Acknowledged messages without an effect.
    pub lost: u64,
    /// Effects beyond the first of their message.
    pub doubled: u64,
    /// Effects whose transaction is not there.
    pub ghosts: u64,
    /// Messages that arrived or were enqueued again, and were recognised.
    pub suppressed_duplicates: u64,
    /// A run without any did not bite.
    pub wants_duplicates: bool,
    /// Settles of workers that no longer held the message, refused.
    pub stale_acks_refused: u64,
    /// From a kill or a pause's end to the next message handled by anybody, in milliseconds: 99 of 100 are faster.
    pub recovery_ms_p99: u64,
    /// The same, in the middle.
    pub recovery_ms_p50: u64,
    /// Processes paused beyond their lease.
    pub pauses: u32,
    /// Orders whose commit was answered.
    pub acknowledged: u64,
    /// Outcomes nobody knew after a kill; those orders were placed again.
    pub unknown: u64,
    /// Effects in all.
    pub effects: u64,
    /// Messages that still waited or were held at the end.
    pub backlog_left: u64,
    /// Messages that are dead.
    pub dead: u64,
    /// Messages that stand in no place or in two.
    pub misplaced: u64,
    /// Orders without their message, effects without their settled inbox row, or the other way round.
    pub torn: u64,
    /// Effects of a lane that came before the effect of an earlier order.
    pub inverted: u64,
    /// Processes that died or hung without being killed.
    pub deaths: Vec<String>,
    /// Settles by somebody else than the one who held the message.
    pub stale_settles_applied: u64,
    /// Where the processes were killed.
    pub kills_by_point: BTreeMap<&'static str, u32>,
    /// How they were paused.
    pub pauses_by_kind: BTreeMap<&'static str, u32>,
    /// What was done to the server.
    pub blows_by_kind: BTreeMap<&'static str, u32>,
    /// What the wire between two services did.
    pub faults_by_kind: BTreeMap<&'static str, u64>,
    /// Connections that were ended from the server's side.
    pub terminations: u64,
    /// Connections that were cut between a COMMIT and its answer.
    pub commits_cut: u64,
    /// Commits without an answer, by those who made them.
    pub commits_in_doubt: u64,
    /// The guard that was taken away.
    pub sabotage: Option<&'static str>,
    /// What failed under fire and was tried again: the first few.
    pub troubles: Vec<String>,
    /// How long it took.
    pub seconds: f64,
    /// Where the databases are, if they were kept.
    pub kept: Option<PathBuf>,
}

impl Report {
    /// Every reason why this run does not pass; none when it does.
    pub fn failures(&self) -> Vec<String> {
        let broken = [
            (self.lost, "messages lost"),
            (self.doubled, "effects doubled"),
            (self.ghosts, "effects without their transaction"),
            (self.torn, "transactions torn in two"),
            (self.inverted, "effects out of order"),
            (self.stale_settles_applied, "stale settles applied"),
            (self.dead, "messages given up"),
            (self.misplaced, "messages in no place or in two"),
            (self.backlog_left, "messages still waiting"),
            (self.messages.saturating_sub(self.acknowledged), "orders never acknowledged"),
        ];
        let broken = broken.into_iter().filter(|(count, _)| *count > 0);
        let mut failures: Vec<String> = broken.map(|(count, what)| format!("{count} {what}")).collect();
        let mut bites = Vec::new();
        if self.wants_duplicates {
            bites.push((self.suppressed_duplicates, "no duplicate was suppressed: the run did not bite"));
        }
        // A killed worker never sends a stale ack; a paused one does.
        if self.pauses > 0 {
            bites.push((self.stale_acks_refused, "no stale ack was refused: the run did not bite"));
        }
        if self.commits_cut > 0 {
            bites.push((self.commits_in_doubt, "no commit was in doubt: the run did not bite"));
        }
        let idle = self.faults_by_kind.iter().filter(|(_, count)| **count == 0);
        failures.extend(idle.map(|(fault, _)| format!("the wire's fault {fault} never struck: the run did not bite")));
        failures.extend(self.deaths.iter().cloned());
        failures.extend(bites.into_iter().filter(|(count, _)| *count == 0).map(|(_, what)| what.to_owned()));
        failures
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sabotage = self.sabotage.map(|guard| format!(", sabotage {guard}")).unwrap_or_default();
        writeln!(
            f,
            "torture on {}: {} kills, {} pauses, {} messages, seed {}{sabotage}: {:.1} s",
            self.backend, self.kills, self.pauses, self.messages, self.seed, self.seconds
        )?;
        writeln!(
            f,
            "  lost {}, doubled {}, ghosts {}, torn {}, out of order {}, stale settles applied {}, dead {}, \
             misplaced {}, backlog {}",
            self.lost,
            self.doubled,
            self.ghosts,
            self.torn,
            self.inverted,
            self.stale_settles_applied,
            self.dead,
            self.misplaced,
            self.backlog_left
        )?;
        writeln!(
            f,
            "  acknowledged {}, effects {}, outcomes unknown after a kill {}",
            self.acknowledged, self.effects, self.unknown
        )?;
        writeln!(
            f,
            "  duplicates suppressed {}, stale acks refused {}, recovery p50 {} ms, p99 {} ms",
            self.suppressed_duplicates, self.stale_acks_refused, self.recovery_ms_p50, self.recovery_ms_p99
        )?;
        writeln!(f, "  kills: {}", listed(&self.kills_by_point))?;
        writeln!(f, "  pauses: {}", listed(&self.pauses_by_kind))?;
        if !self.blows_by_kind.is_empty() {
            let (ended, cut, in_doubt) = (self.terminations, self.commits_cut, self.commits_in_doubt);
            let blows = listed(&self.blows_by_kind);
            writeln!(
                f,
                "  server: {blows}; connections ended {ended}, commits cut {cut}, commits in doubt {in_doubt}"
            )?;
        }
        if !self.faults_by_kind.is_empty() {
            writeln!(f, "  wire: {}", listed(&self.faults_by_kind))?;
        }
        self.troubles.iter().try_for_each(|trouble| writeln!(f, "  trouble: {trouble}"))?;
        if let Some(dir) = &self.kept {
            writeln!(f, "  kept in {}", dir.display())?;
        }
        match self.failures().as_slice() {
            [] => write!(f, "  PASSED"),
            failures => write!(f, "  FAILED: {}", failures.join("; ")),
        }
    }
}

fn listed(counts: &BTreeMap<&'static str, impl fmt::Display>) -> String {
    let counts: Vec<String> = counts.iter().map(|(name, count)| format!("{name} {count}")).collect();
    counts.join(", ")
}
