//! The measuring itself, as a client of a manager: in rounds, floor and figure in turn.

use std::path::PathBuf;
use std::time::Instant;

use innkeeper_proto::limits::CHUNK;
use innkeeper_proto::v1::file_write_request::Message as Write;
use innkeeper_proto::v1::tar_in_request::Message as TarIn;
use innkeeper_proto::v1::{
    ExecStart, FileReadRequest, FileWriteRequest, FileWriteStart, LeaseReply, LeaseRequest,
    ReturnReply, ReturnRequest, TarInRequest, TarInStart,
};

use super::figure::Figure;
use super::floor::{self, Floor};
use super::sample::Sample;
use crate::cli::connect::Client;
use crate::cli::exec::{call, of_lease};
use crate::cli::failure::Failure;
use crate::cli::form::FormArgs;

/// Figures between two batches of a floor.
const ROUND: usize = 30;
/// Files that are dirty before a reset.
const DIRTY: usize = 100;
/// Bytes that are moved.
const TRANSFER: u64 = 1024 * 1024 * 1024;
/// Repeats of a transfer.
const TRANSFERS: usize = 3;

const CLONE: &str = "clone3 of the same namespaces, overlay, exec, reap";

/// A client that measures.
#[derive(Debug)]
pub(super) struct Meter {
    client: Client,
    image: String,
    form: FormArgs,
    layers: Vec<PathBuf>,
    repeats: usize,
}

impl Meter {
    /// Measures on this image, so many times.
    pub(super) fn new(
        client: Client,
        image: String,
        form: FormArgs,
        layers: Vec<PathBuf>,
        repeats: usize,
    ) -> Self {
        Self {
            client,
            image,
            form,
            layers,
            repeats,
        }
    }

    /// Lease of an idle sandbox, exec of `true`, and reset after 100 files, all in one cycle.
    pub(super) async fn quick(
        &mut self,
        lease: bool,
        exec: bool,
        reset: bool,
    ) -> Result<Vec<Figure>, Failure> {
        let mut figures = [
            (
                lease,
                figure("lease", "64 bytes there and back through a unix socket"),
                Floor::Socket(64),
            ),
            (exec, figure("exec", "posix_spawn of true"), Floor::Spawn),
            (reset, figure("reset", CLONE), Floor::Clone),
        ];
        // The first leases make and specialise what later ones find idle.
        self.cycle(&mut figures, false).await?;
        let mut left = self.repeats;
        while left > 0 {
            let round = left.min(ROUND);
            for (wanted, figure, floor) in &mut figures {
                if *wanted {
                    figure.floor.add(floor.batch(round).await?);
                }
            }
            for _ in 0..round {
                self.cycle(&mut figures, true).await?;
            }
            left -= round;
        }
        Ok(figures
            .into_iter()
            .filter(|(wanted, ..)| *wanted)
            .map(|(_, figure, _)| figure)
            .collect())
    }

    async fn cycle(
        &mut self,
        figures: &mut [(bool, Figure, Floor); 3],
        count: bool,
    ) -> Result<(), Failure> {
        let (ms, granted) = timed(self.lease("")).await?;
        let [(_, lease, _), (want_exec, exec, _), (_, reset, _)] = figures;
        // What was made only now is a create, not a lease of an idle sandbox.
        let idle = granted.supply != "fresh" && !granted.specialised;
        if count && idle {
            lease.sample.add(ms);
        }
        let done = self
            .used(&granted, *want_exec, count.then_some(&mut exec.sample))
            .await;
        let (ms, reply) = timed(self.give_back(&granted, "", false)).await?;
        done?;
        // Every few resets go deeper by themselves; those have figures of their own.
        if count && reply.verified == "swap" {
            reset.sample.add(ms);
        }
        Ok(())
    }

    async fn used(
        &mut self,
        granted: &LeaseReply,
        exec: bool,
        sample: Option<&mut Sample>,
    ) -> Result<(), Failure> {
        if exec {
            let (ms, ()) = timed(self.run_true(granted)).await?;
            if let Some(sample) = sample {
                sample.add(ms);
            }
        }
        self.dirty(granted).await
    }

    /// A lease where nothing stands ready: slot, namespaces, overlay.
    pub(super) async fn create(&mut self) -> Result<Figure, Failure> {
        let mut figure = figure("create", CLONE);
        let template = r#"{"supply": {"mode": "on-demand"}, "env": {"INNKEEPER_BENCH": "create"}}"#;
        // The first one records the template's baseline.
        let first = self.lease(template).await?;
        self.give_back(&first, "", true).await?;
        let mut left = self.repeats;
        while left > 0 {
            let round = left.min(ROUND);
            figure.floor.add(Floor::Clone.batch(round).await?);
            for _ in 0..round {
                let (ms, granted) = timed(self.lease(template)).await?;
                self.give_back(&granted, "", true).await?;
                figure.sample.add(ms);
            }
            left -= round;
        }
        Ok(figure)
    }

    /// A walk that verifies, alone.
    pub(super) async fn verify(&self) -> Result<Figure, Failure> {
        let mut figure = figure(
            "verify",
            "a bare statx walk of the same merged tree, one thread",
        );
        for _ in 0..(self.repeats / 30).max(5) {
            let (floor, value) = floor::verify(&self.layers, 3).await?;
            figure.floor.add(floor);
            figure.sample.add(value);
        }
        Ok(figure)
    }

    /// Reset verified by a walk.
    pub(super) async fn walk(&mut self) -> Result<Figure, Failure> {
        let mut figure = figure("walk", "the reset's floor and a statx walk of the layers");
        let walk = Floor::Walk(self.layers.clone());
        for _ in 0..(self.repeats / 10).max(5) {
            figure
                .floor
                .add(Floor::Clone.batch(3).await? + walk.batch(1).await?);
            figure.sample.add(self.dirty_reset("walk").await?);
        }
        Ok(figure)
    }

    /// Reset verified by all contents.
    pub(super) async fn full(&mut self) -> Result<Figure, Failure> {
        let mut figure = figure(
            "full",
            "the reset's floor, a statx walk and one read of the layers",
        );
        let walk = Floor::Walk(self.layers.clone());
        for _ in 0..(self.repeats / 30).max(5) {
            let layers = self.layers.clone();
            let read = tokio::task::spawn_blocking(move || floor::read_all(&layers)).await;
            let read = read
                .map_err(std::io::Error::other)
                .flatten()
                .map_err(|e| Failure::failed(format_args!("the layers could not be read: {e}")))?;
            figure
                .floor
                .add(Floor::Clone.batch(3).await? + walk.batch(1).await? + read);
            figure.sample.add(self.dirty_reset("full").await?);
        }
        Ok(figure)
    }

    async fn dirty_reset(&mut self, depth: &str) -> Result<f64, Failure> {
        let granted = self.lease("").await?;
        let dirty = self.dirty(&granted).await;
        let (ms, _) = timed(self.give_back(&granted, depth, false)).await?;
        dirty?;
        Ok(ms)
    }

    /// A large file into and out of a sandbox.
    pub(super) async fn transfer(
        &mut self,
        write: bool,
        read: bool,
    ) -> Result<Vec<Figure>, Failure> {
        let through = "1 GiB through a unix socket";
        let (mut written, mut taken) = (figure("write", through), figure("read", through));
        let granted = self.lease("").await?;
        let moved = async {
            for _ in 0..TRANSFERS {
                let floor = Floor::Socket(TRANSFER).batch(1).await?;
                written.floor.add(floor);
                taken.floor.add(floor);
                written.sample.add(timed(self.put(&granted)).await?.0);
                if read {
                    taken.sample.add(timed(self.take(&granted)).await?.0);
                }
            }
            Ok(())
        };
        let moved: Result<(), Failure> = moved.await;
        self.give_back(&granted, "", false).await?;
        moved?;
        Ok([(write, written), (read, taken)]
            .into_iter()
            .filter(|(wanted, _)| *wanted)
            .map(|(_, f)| f)
            .collect())
    }

    async fn lease(&mut self, template: &str) -> Result<LeaseReply, Failure> {
        let request = LeaseRequest {
            image: self.image.clone(),
            template_json: self.form.into_template(template)?,
            job: "bench".to_owned(),
            holder: format!("innkeeper-bench:{}", std::process::id()),
            ..LeaseRequest::default()
        };
        Ok(self.client.lease(request).await?.into_inner())
    }

    async fn give_back(
        &mut self,
        granted: &LeaseReply,
        verify: &str,
        discard: bool,
    ) -> Result<ReturnReply, Failure> {
        let request = ReturnRequest {
            lease: granted.lease.clone(),
            discard,
            wait: true,
            verify: verify.to_owned(),
            ..ReturnRequest::default()
        };
        let reply = self.client.r#return(request).await?.into_inner();
        if !discard && reply.outcome != "clean" {
            let what: Vec<_> = reply
                .differs
                .iter()
                .map(|d| {
                    format!(
                        "{} {}: {}",
                        d.component,
                        String::from_utf8_lossy(&d.path),
                        d.what
                    )
                })
                .collect();
            return Err(Failure::failed(format_args!(
                "a sandbox came back {} ({}), so nothing can be measured",
                reply.outcome,
                what.join("; ")
            )));
        }
        Ok(reply)
    }

    async fn run_true(&mut self, granted: &LeaseReply) -> Result<(), Failure> {
        let start = ExecStart {
            target: Some(of_lease(&granted.lease)),
            argv: vec!["true".into()],
            ..ExecStart::default()
        };
        let outcome = call::collected(&mut self.client, start).await?;
        match outcome.code() {
            0 => Ok(()),
            code => Err(Failure::failed(format_args!(
                "`true` ended with {code} in this image: name one that has it with --image"
            ))),
        }
    }

    /// Writes the files that a reset has to throw away.
    async fn dirty(&mut self, granted: &LeaseReply) -> Result<(), Failure> {
        let start = TarInStart {
            target: Some(of_lease(&granted.lease)),
            path: "/".into(),
        };
        let messages =
            [TarIn::Start(start), TarIn::Data(dirty_tar().into())].map(|message| TarInRequest {
                message: Some(message),
            });
        self.client.tar_in(tokio_stream::iter(messages)).await?;
        Ok(())
    }

    async fn put(&mut self, granted: &LeaseReply) -> Result<(), Failure> {
        let start = FileWriteStart {
            target: Some(of_lease(&granted.lease)),
            path: "/innkeeper-bench".into(),
            mode: 0o600,
            ..FileWriteStart::default()
        };
        let chunk = tonic::codegen::Bytes::from(vec![0x5a; CHUNK]);
        let data = (0..TRANSFER / CHUNK as u64).map(move |_| Write::Data(chunk.clone()));
        let messages = std::iter::once(Write::Start(start))
            .chain(data)
            .map(|message| FileWriteRequest {
                message: Some(message),
            });
        let written = self
            .client
            .write_file(tokio_stream::iter(messages))
            .await?
            .into_inner();
        whole(written.size)
    }

    async fn take(&mut self, granted: &LeaseReply) -> Result<(), Failure> {
        let request = FileReadRequest {
            target: Some(of_lease(&granted.lease)),
            path: "/innkeeper-bench".into(),
            ..FileReadRequest::default()
        };
        let mut chunks = self.client.read_file(request).await?.into_inner();
        let mut size = 0;
        while let Some(chunk) = chunks.message().await? {
            size += chunk.data.len() as u64;
        }
        whole(size)
    }
}

fn whole(size: u64) -> Result<(), Failure> {
    if size == TRANSFER {
        Ok(())
    } else {
        Err(Failure::failed(format_args!(
            "only {size} of {TRANSFER} bytes arrived"
        )))
    }
}

fn figure(name: &'static str, floor_name: &str) -> Figure {
    Figure {
        name,
        sample: Sample::default(),
        floor: Sample::default(),
        floor_name: floor_name.to_owned(),
    }
}

/// Awaits `work` and says how many milliseconds it took.
async fn timed<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<(f64, T), Failure> {
    let started = Instant::now();
    let done = work.await?;
    Ok((started.elapsed().as_secs_f64() * 1000.0, done))
}

fn dirty_tar() -> Vec<u8> {
    let mut tar = tar::Builder::new(Vec::new());
    for number in 0..DIRTY {
        let mut header = tar::Header::new_gnu();
        header.set_mode(0o644);
        header.set_uid(0);
        header.set_gid(0);
        header.set_mtime(0);
        header.set_size(4096);
        // Writing into memory does not fail, and these names are short.
        let _ = tar.append_data(
            &mut header,
            format!("innkeeper-bench.{number}"),
            &[0x5a; 4096][..],
        );
    }
    tar.into_inner().unwrap_or_default()
}
