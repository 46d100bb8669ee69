//! Work of independent experiments on all cores.

use core::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Mutex;
use std::thread;

/// Returns what `make` returns for each item, in their order. They are begun in that order, so the longest should come first.
///
/// # Errors
/// That of the first item that fails. The others are made all the same.
///
/// # Panics
/// If a thread has panicked.
pub(crate) fn map<T: Sync, R: Send>(
    items: &[T],
    make: impl Fn(&T) -> Result<R, String> + Sync,
) -> Result<Vec<R>, String> {
    let (next, done) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let make_next = || {
        let number = next.fetch_add(1, Ordering::Relaxed);
        let made = make(items.get(number)?);
        done.lock().unwrap_or_else(|error| panic!("{error}")).push((number, made));
        Some(())
    };
    let workers = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| while make_next().is_some() {});
        }
    });
    let mut done = done.into_inner().unwrap_or_else(|error| panic!("{error}"));
    done.sort_by_key(|(number, _)| *number);
    done.into_iter().map(|(_, made)| made).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_in_order_and_the_first_error_wins() {
        let items: Vec<u32> = (0..100).collect();
        let doubled = map(&items, |item| Ok(2 * item)).unwrap();
        assert!(doubled.iter().enumerate().all(|(at, item)| *item as usize == 2 * at));
        let failed = map(&items, |item| if *item % 7 == 3 { Err(item.to_string()) } else { Ok(()) });
        assert_eq!(failed.unwrap_err(), "3");
    }
}
