//! One process's end of two services: a publisher into one, a subscriber to the other.

use core::error::Error;
use std::env;

use iceoryx2::port::publisher::Publisher;
use iceoryx2::port::subscriber::Subscriber;
use iceoryx2::port::update_connections::UpdateConnections;
use iceoryx2::prelude::*;

/// Bytes that may be on their way: more, of large messages, would leave the caches.
const BYTES_ON_THEIR_WAY: usize = 1 << 20;
const SAMPLES_MIN: usize = 2;
const SAMPLES_MAX: usize = 64;

/// Prefix of the files that iceoryx2 leaves in /dev/shm, which scripts/compare.sh removes.
const PREFIX: &[u8] = b"superpipe_bench_";

pub type Failure = Box<dyn Error>;

/// Sends messages in one direction, and receives those of the other.
pub struct Link {
    publisher: Publisher<ipc::Service, [u8], ()>,
    subscriber: Subscriber<ipc::Service, [u8], ()>,
    credit: Credit,
    /// kept, since the ports' services end with their node
    _node: Node<ipc::Service>,
}

/// Flow control of streams. iceoryx2's own, for a publisher that loses nothing, sleeps ever longer while there is no
/// room; a program that needs the rate has the receiver acknowledge instead.
struct Credit {
    /// messages that may be on their way
    window: usize,
    /// messages per acknowledgement
    step: usize,
    unacknowledged: usize,
    /// since the last acknowledgement
    received: usize,
}

impl Credit {
    const fn new(window: usize) -> Self {
        Self { window, step: window / 2, unacknowledged: 0, received: 0 }
    }
}

impl Link {
    /// Makes an end for messages of up to `bytes_max`, over services of this name. `meet` returns when the other process
    /// has called its own: nothing may be published before there is a subscriber.
    pub fn new(name: &str, is_client: bool, bytes_max: usize, meet: impl Fn()) -> Result<Self, Failure> {
        let mut config = Config::default();
        config.global.prefix = FileName::new(PREFIX)?;
        if let Some(root) = env::var_os("PEER_ROOT") {
            config.global.set_root_path(&Path::new(root.as_encoded_bytes())?);
        }
        let node = NodeBuilder::new()
            .config(&config)
            .signal_handling_mode(SignalHandlingMode::Disabled)
            .create::<ipc::Service>()?;
        let sample_count = (BYTES_ON_THEIR_WAY / bytes_max.max(1)).clamp(SAMPLES_MIN, SAMPLES_MAX);
        let service = |direction: &str| -> Result<_, Failure> {
            let name = format!("superpipe-bench/{name}/{bytes_max}/{direction}");
            Ok(node
                .service_builder(&name.as_str().try_into()?)
                .publish_subscribe::<[u8]>()
                .enable_safe_overflow(false)
                .history_size(0)
                .max_publishers(1)
                .max_subscribers(1)
                .max_nodes(2)
                .subscriber_max_buffer_size(sample_count)
                .subscriber_max_borrowed_samples(1)
                .open_or_create()?)
        };
        let (forth, back) = (service("forth")?, service("back")?);
        let (out, incoming) = if is_client { (forth, back) } else { (back, forth) };
        let publisher = out
            .publisher_builder()
            .initial_max_slice_len(bytes_max)
            .max_loaned_samples(1)
            .backpressure_strategy(BackpressureStrategy::RetryUntilDelivered)
            .create()?;
        let subscriber = incoming.subscriber_builder().buffer_size(sample_count).create()?;
        meet();
        // Each side finds the other's port now, before the time is measured.
        publisher.update_connections()?;
        subscriber.has_samples()?;
        meet();
        let link = Self { publisher, subscriber, credit: Credit::new(sample_count), _node: node };
        link.touch_samples(bytes_max, sample_count)?;
        meet();
        Ok(link)
    }

    /// Makes every sample resident, by twice as many messages in each direction as can be on their way.
    fn touch_samples(&self, bytes: usize, sample_count: usize) -> Result<(), Failure> {
        let message = vec![0; bytes];
        for _ in 0..2 * (sample_count + 2) {
            self.send_copy(&message)?;
            self.receive(|_| {})?;
        }
        Ok(())
    }

    /// Waits for room for one more message of a stream.
    pub fn await_credit(&mut self) -> Result<(), Failure> {
        if self.credit.unacknowledged == self.credit.window {
            self.receive(|_| {})?;
            self.credit.unacknowledged -= self.credit.step;
        }
        self.credit.unacknowledged += 1;
        Ok(())
    }

    /// Acknowledges a stream once per several messages.
    pub fn give_credit(&mut self) -> Result<(), Failure> {
        self.credit.received += 1;
        if self.credit.received == self.credit.step {
            self.credit.received = 0;
            self.send_in_place(1)?;
        }
        Ok(())
    }

    /// Ends a stream at either end: takes the credit that is still to come.
    pub fn end_stream(&mut self) -> Result<(), Failure> {
        for _ in 0..self.credit.unacknowledged / self.credit.step {
            self.receive(|_| {})?;
        }
        self.credit = Credit::new(self.credit.window);
        Ok(())
    }

    /// Publishes a copy of the message.
    pub fn send_copy(&self, message: &[u8]) -> Result<(), Failure> {
        self.publisher.loan_slice_uninit(message.len())?.write_from_slice(message).send()?;
        Ok(())
    }

    /// Publishes as many bytes as a program would that has made its message in shared memory.
    pub fn send_in_place(&self, bytes: usize) -> Result<(), Failure> {
        let sample = self.publisher.loan_slice_uninit(bytes)?;
        // SAFETY: bytes of shared memory that the kernel zeroed are initialised, whatever was in them before.
        unsafe { sample.assume_init() }.send()?;
        Ok(())
    }

    /// Publishes a message that `write` writes where it lies.
    pub fn send_written(&self, bytes: usize, write: impl FnOnce(&mut [u8])) -> Result<(), Failure> {
        let sample = self.publisher.loan_slice_uninit(bytes)?;
        // SAFETY: as in `send_in_place`.
        let mut sample = unsafe { sample.assume_init() };
        write(sample.payload_mut());
        sample.send()?;
        Ok(())
    }

    /// Waits for the next message, and gives it to `take`.
    pub fn receive(&self, take: impl FnOnce(&[u8])) -> Result<(), Failure> {
        loop {
            if let Some(sample) = self.subscriber.receive()? {
                take(sample.payload());
                return Ok(());
            }
            core::hint::spin_loop();
        }
    }
}
