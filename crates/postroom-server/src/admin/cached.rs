//! Answers that are kept for a moment: however many ask, the database is asked once.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::Instant;

/// So long an answer is good.
const KEPT: Duration = Duration::from_secs(2);
/// And so many times longer than it took: looking must not become the work.
const TIMES: u32 = 50;

/// The last answer to one question.
pub(super) struct Cached<T> {
    kept: RwLock<Option<Kept<T>>>,
    asking: Mutex<()>,
}

struct Kept<T> {
    answer: Arc<T>,
    until: Instant,
}

impl<T> Default for Cached<T> {
    fn default() -> Self {
        Self { kept: RwLock::new(None), asking: Mutex::new(()) }
    }
}

impl<T> Cached<T> {
    /// The last answer while it is good, else a new one. While somebody asks, the others make do with the last.
    pub(super) async fn get(&self, ask: impl Future<Output = T>) -> Arc<T> {
        let last = match self.last() {
            Some((answer, true)) => return answer,
            last => last.map(|(answer, _)| answer),
        };
        let _asking = match (self.asking.try_lock(), last) {
            (Ok(asking), _) => asking,
            (Err(_), Some(last)) => return last,
            (Err(_), None) => self.asking.lock().await,
        };
        // Somebody may have asked while this one waited.
        if let Some((answer, true)) = self.last() {
            return answer;
        }
        let began = Instant::now();
        let answer = Arc::new(ask.await);
        let until = Instant::now() + KEPT.max(began.elapsed() * TIMES);
        *self.kept.write().unwrap_or_else(PoisonError::into_inner) = Some(Kept { answer: answer.clone(), until });
        answer
    }

    /// The last answer, and whether it is still good.
    fn last(&self) -> Option<(Arc<T>, bool)> {
        let kept = self.kept.read().unwrap_or_else(PoisonError::into_inner);
        kept.as_ref().map(|kept| (kept.answer.clone(), Instant::now() < kept.until))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use futures_util::future::join_all;
    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_question_is_asked_once_however_many_want_to_know() {
        let (cached, asked) = (Cached::default(), AtomicU32::new(0));
        let ask = || async {
            tokio::task::yield_now().await;
            asked.fetch_add(1, Ordering::SeqCst) + 1
        };
        let answers = join_all((0..1000).map(|_| cached.get(ask()))).await;
        assert!(answers.iter().all(|answer| **answer == 1));
        advance(KEPT).await;
        let answers = join_all((0..1000).map(|_| cached.get(ask()))).await;
        assert!(answers.iter().all(|answer| **answer <= 2), "those that do not ask make do with the last answer");
        assert_eq!((asked.load(Ordering::SeqCst), *cached.get(ask()).await), (2, 2));
    }

    #[tokio::test(start_paused = true)]
    async fn what_took_long_is_not_asked_again_soon() {
        let cached = Cached::default();
        let slow = async {
            advance(Duration::from_secs(1)).await;
            1
        };
        assert_eq!(*cached.get(slow).await, 1);
        advance(Duration::from_secs(49)).await;
        assert_eq!(*cached.get(async { 2 }).await, 1);
        advance(Duration::from_secs(2)).await;
        assert_eq!(*cached.get(async { 3 }).await, 3);
    }
}
