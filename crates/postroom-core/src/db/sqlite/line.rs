//! The jobs that wait for the writer thread.

use std::collections::VecDeque;
use std::time::Instant;

use tokio::sync::oneshot;

use crate::db::sqlite::job::Job;
use crate::support::clock::monotonic;

/// The most jobs that may wait: no caller would wait long enough for more.
pub(super) const JOBS_MAX: usize = 65_536;

/// A job, and when it was submitted.
pub(super) struct Waiting {
    pub(super) job: Box<dyn Job>,
    pub(super) since: Instant,
}

impl Waiting {
    pub(super) fn new(job: Box<dyn Job>) -> Self {
        Self { job, since: monotonic() }
    }
}

#[derive(Default)]
pub(super) struct Line {
    jobs: VecDeque<Waiting>,
    pub(super) running: bool,
    pub(super) waiting: bool,
    /// The callers that wait for the thread to end; it ends when no jobs are left.
    pub(super) ending: Vec<oneshot::Sender<()>>,
}

impl Line {
    pub(super) fn is_full(&self) -> bool {
        self.jobs.len() >= JOBS_MAX
    }

    pub(super) fn is_empty(&self) -> bool {
        self.jobs.is_empty()
    }

    pub(super) fn push_back(&mut self, job: Waiting) {
        self.jobs.push_back(job);
    }

    /// Adds a job before the others, for urgent work.
    pub(super) fn push_front(&mut self, job: Waiting) {
        self.jobs.push_front(job);
    }

    pub(super) fn pop(&mut self) -> Option<Waiting> {
        self.jobs.pop_front()
    }

    /// The next job, unless it is a session and `may_be_session` is false.
    pub(super) fn pop_for_group(&mut self, may_be_session: bool) -> Option<Waiting> {
        self.jobs.pop_front_if(|next| may_be_session || !next.job.is_session())
    }

    /// The next job, if it can run together with this one.
    pub(super) fn pop_beside(&mut self, job: &mut dyn Job) -> Option<Waiting> {
        let job = job.as_enqueue()?;
        self.jobs.pop_front_if(|next| next.job.as_enqueue().is_some_and(|next| next.may_join(job)))
    }

    /// Takes the jobs that were submitted no later than `latest`.
    pub(super) fn take_until(&mut self, latest: Instant) -> Vec<Waiting> {
        let (taken, left) = self.jobs.drain(..).partition(|waiting| waiting.since <= latest);
        self.jobs = left;
        // In the order in which they were waiting.
        Vec::from(taken)
    }

    pub(super) fn take_all(&mut self) -> Vec<Waiting> {
        self.jobs.drain(..).collect()
    }
}
