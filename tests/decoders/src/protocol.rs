//! Messages of the protocol.

use innkeeper_proto::v1::{
    ExecReply, ExecRequest, ExecStart, FileWriteRequest, LeaseReply, LeaseRequest, PathRequest,
    ReturnReply, ReturnRequest, SessionRun, SpecialiseRequest, TarInRequest, TemplateSpec,
    exec_request,
};
use prost::Message;

use crate::Target;

pub(crate) const TARGET: Target = Target {
    name: "protocol",
    read,
    seeds,
};

fn read(bytes: &[u8]) {
    both::<LeaseRequest>(bytes);
    both::<LeaseReply>(bytes);
    both::<ReturnRequest>(bytes);
    both::<ReturnReply>(bytes);
    both::<ExecRequest>(bytes);
    both::<ExecReply>(bytes);
    both::<SessionRun>(bytes);
    both::<PathRequest>(bytes);
    both::<FileWriteRequest>(bytes);
    both::<TarInRequest>(bytes);
    both::<TemplateSpec>(bytes);
    both::<SpecialiseRequest>(bytes);
}

/// Reads a message, and again what is written of it.
fn both<M: Message + Default>(bytes: &[u8]) {
    let Ok(message) = M::decode(bytes) else {
        return;
    };
    let written = message.encode_to_vec();
    let again = M::decode(&written[..]).expect("what was written");
    // By length: maps are written in any order, and a number that is none equals not even itself.
    assert_eq!(written.len(), again.encoded_len());
}

fn seeds() -> Vec<Vec<u8>> {
    let start = ExecStart {
        argv: vec![b"sh".to_vec().into(), b"-c".to_vec().into()],
        env: vec![b"A=\xff".to_vec().into()],
        cwd: b"/testbed".to_vec().into(),
        user: "root".to_owned(),
        umask: Some(0o22),
        timeout_ms: 1000,
        ..ExecStart::default()
    };
    let exec = ExecRequest {
        message: Some(exec_request::Message::Start(start)),
    };
    let lease = LeaseRequest {
        image: "image".to_owned(),
        template_json: "{}".to_owned(),
        ttl_ms: 5,
        ..LeaseRequest::default()
    };
    let back = ReturnReply {
        outcome: "clean".to_owned(),
        components: vec![Default::default()],
        differs: vec![Default::default()],
        ms: 1.5,
        ..ReturnReply::default()
    };
    vec![
        exec.encode_to_vec(),
        lease.encode_to_vec(),
        back.encode_to_vec(),
    ]
}
