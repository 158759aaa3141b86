//! Lua bodies and libraries for the script commands.

use crate::rng::Rng;

/// Bodies that use KEYS and ARGV only.
pub(super) const BODIES: [&str; 26] = [
    "return 1",
    "return {1, 2, {3, 'four', {5}}}",
    "return KEYS",
    "return {ARGV[1], KEYS[1], #ARGV, #KEYS}",
    "return 3.99",
    "return -3.99",
    "return nil",
    "return false",
    "return true",
    "return {1, nil, 3}",
    "return redis.error_reply('MY error')",
    "return redis.error_reply('no code')",
    "return redis.status_reply('FINE')",
    "return {ok = 'x', err = 'y'}",
    "return {err = 'plain'}",
    "return {double = 3.5}",
    "return redis.sha1hex('abc')",
    "return tostring(1e15) .. ' ' .. tostring(0.1) .. ' ' .. tostring(2^53)",
    "return cjson.encode({1, 'a', {}, true, 1.5}) .. cjson.encode({a = 1})",
    "return cjson.decode('{\"a\":[1,2,{\"b\":null}]}')['a'][2]",
    "return cmsgpack.unpack(cmsgpack.pack({1, 'x', 2.5}))",
    "return {struct.unpack('>I2h', struct.pack('>I2h', 258, -2))}",
    "return {bit.band(255, 15), bit.tohex(65535), bit.bnot(0), bit.lshift(1, 31)}",
    "return string.format('%s %d %5.2f %q', 'a', 42, 1.005, 'x\\ny')",
    "local t = {} for i = 1, 5 do t[i] = i * i end return t",
    "return syntax error here",
];

/// Bodies that call a command; the command is passed as ARGV.
pub(super) const CALLERS: [&str; 5] = [
    "return redis.call(unpack(ARGV))",
    "return redis.pcall(unpack(ARGV))",
    "local r = redis.pcall(unpack(ARGV)) if type(r) == 'table' then return {r.err or r.ok or 'table', #r} end return {type(r), r}",
    "redis.setresp(3) local r = redis.pcall(unpack(ARGV)) return r",
    "local a = redis.pcall(unpack(ARGV)) local b = redis.pcall('EXISTS', 's1') return {b, b}",
];

const LIBRARIES: [&str; 7] = [
    "#!lua name=lib1\nredis.register_function('fget', function(keys, args) return redis.call('GET', keys[1]) end)",
    "#!lua name=lib1\nredis.register_function{function_name='fro', callback=function(keys, args) return {#keys, #args} end, flags={'no-writes'}}",
    "#!lua name=lib2\nredis.register_function('fset', function(keys, args) return redis.call('SET', keys[1], 'v') end)",
    "#!lua name=lib2\nlocal x = ",
    "#!lua name=lib2\nreturn 1",
    "#!js name=lib1\nx",
    "no header",
];

pub(super) fn body(rng: &mut Rng) -> Vec<u8> {
    rng.pick(&BODIES).as_bytes().to_vec()
}

pub(super) fn library(rng: &mut Rng) -> Vec<u8> {
    rng.pick(&LIBRARIES).as_bytes().to_vec()
}
