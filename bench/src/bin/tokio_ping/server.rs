//! The other process: answers every message with the same bytes, each kind by a task.

use core::time::Duration;

use superpipe_bench::failure::Failure;
use superpipe_tokio::{Address, Listener, Options};
use tokio::net::{TcpListener, UnixListener};

use super::end::{End, Kind, broken, failed, unix_path};

/// Serves until the client is gone.
pub(crate) fn serve(address: &Address, spin: Duration) -> Result<(), Failure> {
    super::runtime()?.block_on(async {
        let path = unix_path(address);
        let (unix, tcp) = (
            UnixListener::bind(&path).map_err(broken)?,
            TcpListener::bind("127.0.0.1:0").await.map_err(broken)?,
        );
        let port = tcp.local_addr().map_err(broken)?.to_string();
        std::fs::write(path.with_extension("port"), port).map_err(broken)?;
        let mut listener = Listener::bind(address, Options::default()).map_err(failed)?;
        let mut tasks = Vec::new();
        for kind in [Kind::Spin, Kind::Armed] {
            let connection = listener.accept().await.map_err(failed)?;
            tasks.push(tokio::spawn(echo(End::superpipe(connection, kind, spin))));
        }
        let (stream, _) = unix.accept().await.map_err(broken)?;
        tasks.push(tokio::spawn(echo(End::unix(stream))));
        let (stream, _) = tcp.accept().await.map_err(broken)?;
        tasks.push(tokio::spawn(echo(End::tcp(stream)?)));
        for task in tasks {
            let _ = task.await;
        }
        Ok(())
    })
}

async fn echo(mut end: End) -> Result<(), Failure> {
    let mut room = vec![0; end.bytes()];
    loop {
        end.receive(&mut room).await?;
        end.note_next(&room)?;
        end.send(&room).await?;
        room.resize(end.bytes(), 0);
    }
}
