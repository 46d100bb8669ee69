//! A waker that polls at once, as some executors have it.

use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use core::time::Duration;
use std::sync::{Arc, Mutex, mpsc};
use std::task::Wake;
use std::thread;

use superpipe_tokio::{Address, Connection, Listener, Options};

type Boxed = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A task that runs where it is woken, unless it runs.
struct Inline(Mutex<Option<Boxed>>);

impl Inline {
    fn run(self: &Arc<Self>) {
        let Ok(mut place) = self.0.try_lock() else { return };
        let waker = Waker::from(Arc::clone(self));
        if let Some(future) = &mut *place
            && let Poll::Ready(()) = future.as_mut().poll(&mut Context::from_waker(&waker))
        {
            *place = None;
        }
    }
}

impl Wake for Inline {
    fn wake(self: Arc<Self>) {
        self.run();
    }
}

/// One half wakes the other while it holds what both share.
#[test]
fn a_waker_that_polls_at_once_is_no_deadlock() {
    let (tell, told) = mpsc::channel();
    thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let path = std::env::temp_dir().join(format!("superpipe-waker-{}.sock", std::process::id()));
            let mut listener = Listener::bind(&Address::Shm(path.clone()), Options::default()).unwrap();
            let address = Address::Shm(path);
            let connecting = Connection::connect(&address, Options::default(), Duration::from_secs(30));
            let (accepted, connected) = tokio::join!(listener.accept(), connecting);
            let (one, mut other) = (accepted.unwrap(), connected.unwrap());
            let (mut send, mut recv) = one.split();
            let task: Boxed = Box::pin(async move {
                send.send(1, &[b"hello"]).await.unwrap();
                let _ = send.flush().await;
            });
            Arc::new(Inline(Mutex::new(Some(task)))).run();
            // The receiving half hears of it, and wakes the other.
            other.send(2, &[b"here"]).await.unwrap();
            other.recv_message(10).await.unwrap();
            recv.recv_message(10).await.unwrap();
        });
        tell.send(()).unwrap();
    });
    told.recv_timeout(Duration::from_secs(10)).expect("it hangs");
}
