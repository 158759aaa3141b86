//! Doing a job on an interpreter.

use std::sync::Arc;

use super::job::{Ended, ScriptJob, Work};
use super::{Call, LogLevel, ScriptHost, Tick, Vm};
use crate::resp::Protocol;

/// Does a job.
pub(crate) fn run(vm: &mut Vm, job: &ScriptJob, host: &Arc<dyn ScriptHost>) -> Ended {
    for library in &job.retired {
        vm.drop_library(*library);
    }
    let protocol = if job.protocol == Protocol::Resp3 { 3 } else { 2 };
    let call = Call { request: &job.request, protocol, host };
    match &job.work {
        Work::Eval { generation, sha, script } => {
            Ended::Replied(vm.eval(*generation, sha, script, call))
        }
        Work::Compile { generation, sha, script } => {
            Ended::Compiled(vm.compile(*generation, sha, script))
        }
        Work::LoadLibrary { generation, id, source, code_at, .. } => {
            Ended::Loaded(vm.load_library(*generation, *id, &source[*code_at..], host))
        }
        Work::CallFunction { generation, id, source, code_at, function } => {
            Ended::Replied(vm.call(*generation, *id, &source[*code_at..], function, call))
        }
    }
}

/// A host without an engine, for code that may not call anything.
pub(crate) struct Nobody;

impl ScriptHost for Nobody {
    fn call(&self, _protocol: u8, _args: &[&[u8]], reply: &mut Vec<u8>) {
        reply.extend_from_slice(b"-ERR No engine to call\r\n");
    }

    fn may_call(&self, _args: &[&[u8]]) -> Option<bool> {
        None
    }

    fn set_repl(&self, _to_log: bool, _to_replicas: bool) {}

    fn log(&self, _level: LogLevel, _message: &[u8]) {}

    fn tick(&self) -> Tick {
        Tick::Continue
    }
}
