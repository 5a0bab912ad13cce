#!/usr/bin/env python3
"""A second verifier of penstock-audit/v1, made from docs/formats/audit.md alone.

Test only, and slow: the Python standard library has no curves, so curves.py has
them. Usage: verify.py VECTORS.json CASES.json LOG checks the vectors, then prints
one exit code a line for the cases.
"""
import base64, hmac, json, os, re, shutil, stat, sys, tempfile

sys.dont_write_bytecode = True
from curves import Bad, b64, ed25519, expand, kdf, leaf, need, node, sha, unseal, x25519

M = b"penstock-audit/v1 "


def age_open(data, identity):
    """The plaintext of a short age file, by an X25519 identity."""
    alphabet = "qpzry9x8gf2tvdw0s3jn54khce6mua7l"
    bits = "".join(f"{alphabet.index(c):05b}" for c in identity.lower().rsplit("1", 1)[1][:-6])
    key = int(bits[:256], 2).to_bytes(32, "big")
    head, _, rest = data.partition(b"\n--- ")
    mac, _, payload = rest.partition(b"\n")
    pub = x25519(key, bytes([9] + [0] * 31))
    for m in re.finditer(rb"-> X25519 (\S+)\n(\S+)(?=\n|$)", head):
        share = b64(m[1].decode(), 32, False)
        wrap = kdf(x25519(key, share), share + pub, b"age-encryption.org/v1/X25519")
        try:
            fk = unseal(wrap, bytes(12), b64(m[2].decode(), 32, False), b"")
        except Bad:
            continue
        need(hmac.digest(kdf(fk, b"", b"header"), head + b"\n---", "sha256") == b64(mac.decode(), 32, False))
        return unseal(kdf(fk, payload[:16], b"payload"), bytes(11) + b"\1", payload[16:], b"")
    return None


def fields(text, first, names):
    lines = text.decode("utf-8", "strict").split("\n") if text.isascii() else need(False)
    need(lines[-1] == "" and lines[0] == first and len(lines) == len(names) + 2)
    out = {}
    for line, name in zip(lines[1:], names):
        k, _, v = line.partition(" ")
        need(k == name and v)
        out[name] = v
    return out


def num(s):
    need(re.fullmatch("0|[1-9][0-9]{0,18}", s))
    return int(s)


def read(path, limit=64 << 20):
    st = os.lstat(path)
    need(stat.S_ISREG(st.st_mode) and st.st_nlink == 1 and st.st_size <= limit, "irregular file")
    with open(path, "rb") as f:
        return f.read()


def note(text, keys):
    """Which of the verifier keys signed a checkpoint; its origin, size and root."""
    head, sep, sigs = text.rpartition("\n\n")
    need(sep and sigs.endswith("\n"))
    body, by = head + "\n", []
    for line in sigs[:-1].split("\n"):
        name, _, sig = line.removeprefix("\u2014 ").rpartition(" ")
        need(line.startswith("\u2014 ") and name)
        sig = b64(sig, None)
        for k in keys:
            kname, khash, kdata = k.split("+", 2)
            if kname == name and sig[:4].hex() == khash:
                need(ed25519(b64(kdata, 33)[1:], body.encode(), sig[4:]), "a checkpoint's signature is wrong")
                by.append(k)
    lines = body.split("\n")
    need(len(lines) == 4 and by, "not signed by the expected key")
    need(by[0].split("+")[0] == lines[0])
    return by, lines[0], num(lines[1]), b64(lines[2])


KINDS = {"open": "signer boot", "head": "size head", "close": "size head", "orphan": "size head", "prune": "size head", "shred": "segment reason",
         "recipients": "hash", "clock": "old new", "epoch": "old vkey", "loss": "what since"}


class Log:
    def __init__(self, path, case, frozen):
        self.path, self.case, self.code, self.strands = path, case, 0, {}
        self.sets, self.frozen, self.identity = set(), frozen, case.get("keyed", 0) and frozen["identities"][case["keyed"] - 1]

    def at_least(self, code):
        self.code = max(self.code, code)

    def spine(self):
        cp = read(self.path + "/spine/checkpoint").decode()
        size = num(cp.split("\n")[1])
        data, pos, edge, last, roots, epochs = read(self.path + "/spine/entries"), 0, [], 0, {}, []
        for i in range(size):
            n = int.from_bytes(data[pos:pos + 2], "big")
            raw = data[pos + 2:pos + 2 + n]
            need(0 < n <= 4096 and len(raw) == n, "the spine was cut")
            pos += 2 + n
            kind = raw.split(b"\n")[0][len(M):].decode()
            need(kind in KINDS)
            e = fields(raw, (M + kind.encode()).decode(), ["strand", "time"] + KINDS[kind].split())
            t = num(e["time"])
            need(num(e["old"]) == last and num(e["new"]) == t < last if kind == "clock" else t >= last, "the clock went back")
            last, s = t, self.strands.get(e["strand"])
            if kind == "open":
                need(s is None)
                self.strands[e["strand"]] = {"signer": b64(e["signer"]), "heads": {}, "last": (0, b""), "end": "", "shreds": set()}
            elif kind in ("head", "close", "orphan"):
                at = (num(e["size"]), b64(e["head"]))
                need(s and not s["end"] and at[0] >= s["last"][0])
                s["heads"][at[0]], s["last"], s["end"] = at[1], at, "" if kind == "head" else kind
            elif kind == "prune":
                need(s and s["end"] and s["last"] == (num(e["size"]), b64(e["head"])))
                s["end"] = "pruned"
            elif kind == "shred":
                s["shreds"].add(num(e["segment"]))
            elif kind == "recipients":
                self.sets.add(b64(e["hash"]))
            elif kind == "loss":
                self.at_least(20)
            h, k = leaf(raw), i
            while k & 1:
                h, k = node(edge.pop(), h), k >> 1
            edge.append(h)
            root = edge[-1]
            for x in edge[-2::-1]:
                root = node(x, root)
            roots[i + 1] = root
            if kind == "epoch":
                epochs.append((i + 1, e["old"], e["vkey"]))
        pinned = self.frozen["vkeys"].get(self.case.get("vkey", ""))
        if not pinned:
            self.at_least(10)
        key = pinned or read(self.path + "/node.vkey").decode().strip()
        keys = [epochs[0][1]] + [e[2] for e in epochs] if epochs else [key]
        need(key in keys)
        for n, old, new in epochs[keys.index(key):]:
            by, _, sz, root = note(read(f"{self.path}/spine/epoch-{n}").decode(), [old, new])
            need(len(set(by)) == 2 and sz == n and root == roots[n])
        _, self.origin, sz, root = note(cp, keys[-1:])
        need(sz == size and root == roots[size])
        for a in self.case.get("anchors", []):
            _, origin, sz, root = note(self.frozen["anchors"][a], keys)
            need(origin == self.origin and roots.get(sz) == root, "an anchor is not met")
        if not self.case.get("anchors"):
            self.at_least(10)

    def run(self):
        self.spine()
        here = set(os.listdir(self.path + "/strands"))
        need(all(s["end"] == "pruned" or i in here for i, s in self.strands.items()), "a strand is missing")
        for i in here:
            need(i in self.strands, "a strand that the spine does not know")
            self.strand(i, self.strands[i])

    def frames(self, data):
        pos = 0
        while len(data) - pos >= 8:
            typ, n = data[pos], int.from_bytes(data[pos + 4:pos + 8], "big")
            if typ not in (1, 2, 3, 5) or any(data[pos + 1:pos + 4]) or n > 1 << 20 or len(data) - pos - 8 < n or typ == 3 and n != 104:
                return
            yield pos, typ, data[pos:pos + 8 + n]
            pos += 8 + n

    def signed(self, sid, s, f):
        return ed25519(s["signer"], M + b"commit\n" + bytes.fromhex(sid) + f[8:48], f[48:112])

    def strand(self, sid, s):
        base, k = f"{self.path}/strands/{sid}/", 0
        n, c, torn, end = 0, b"", 0, ""
        files = [read(base + "%06d.seg" % i) for i in range(len([x for x in os.listdir(base) if x.endswith(".seg")]))]
        while k < len(files):
            data, nxt = files[k], None
            if k + 1 < len(files):
                nxt = self.header(next(self.frames(files[k + 1]))[2])
            first = list(self.frames(data))
            need(len(first) > 1 and first[0][1] == 1 and first[1][1] == 3)
            h = self.header(first[0][2])
            need(h["strand"] == sid and num(h["segment"]) == k and num(h["first"]) == n and b64(h["prev"]) == (c or bytes(32)))
            need(b64(h["signer"]) == s["signer"] and h["origin"] == self.origin and b64(h["recipients"]) in self.sets)
            ck, secret = None, None
            if os.path.lexists(base + "%06d.key.age" % k):
                kf = read(base + "%06d.key.age" % k)
                need(sha(kf) == b64(h["key-file"]), "another key file")
                plain = age_open(kf, self.identity) if self.identity else None
                if self.identity and plain is None:
                    self.at_least(20)
                if plain:
                    kv = fields(plain, (M + b"segment key").decode(), ["strand", "segment", "key"])
                    need(kv["strand"] == sid and num(kv["segment"]) == k)
                    secret = b64(kv["key"])
                    need(kdf(secret, b"", M + b"key-commit") == b64(h["key-commit"]), "another secret")
            else:
                need(k in s["shreds"], "a key file is missing")
                self.at_least(0 if self.case.get("accept") else 20)
            pn, pc, pend, after, done, sealed = n, c, "", 0, False, []
            for pos, typ, f in first:
                need((typ == 1) == (pos == 0) and not end and (not pend or typ == 3), "a frame that does not belong")
                if typ == 3:
                    need((int.from_bytes(f[8:16], "big"), f[16:48]) == (pn, pc) and pn > n, "a COMMIT does not match")
                    need(self.signed(sid, s, f), "a COMMIT's signature is wrong")
                    for args in sealed:
                        body = unseal(*args)
                        need(len(body) % 64 == 0 and body.rstrip(b"\0").endswith(b"\n"))
                        json.loads(body.rstrip(b"\0"))
                    n, c, end, after, sealed = pn, pc, pend, pos + len(f), []
                    if nxt and num(nxt["first"]) == n and b64(nxt["prev"]) == c:
                        done = True
                        break
                    continue
                if typ == 2 and secret:
                    o = expand(ck, M + b"record-key", 64)
                    ck = o[:32]
                    sealed.append((o[32:], bytes(12), f[8:], pc + f[:8]))
                pc, pn = node(pc, leaf(f)) if pn else leaf(f), pn + 1
                if typ == 1 and secret:
                    ck = kdf(secret, pc, M + b"chain-key")
                if typ == 5:
                    need(f[8:] in (b"rotate\n", b"close\n"))
                    pend = f[8:].decode()
                need(s["heads"].get(pn, pc) == pc, "a head that the strand does not have")
            need(done or not nxt, "the next segment does not go on")
            if end:
                need(after == len(data) and not (done and end == "close\n"), "bytes after END")
            elif not done:
                torn = len(data) - after
                tail = data[after:]
                for m in re.finditer(rb"\x03\0\0\0\0\0\0\x68", tail):
                    need(len(tail) - m.start() < 112 or not self.signed(sid, s, tail[m.start():m.start() + 112]), "signed frames behind damage")
            end, k = "" if done else end, k + 1
        need(n >= s["last"][0], "was cut")
        if s["end"]:
            need((n, c) == s["last"] and (s["end"] != "close" or end == "close\n" and not torn))
        elif torn:
            self.at_least(20)

    def header(self, f):
        return fields(f[8:], (M + b"segment").decode(), "strand segment first prev signer key-commit key-file recipients origin created".split())


def change(op, base):
    path, to = base + "/" + op["file"], base + "/" + op.get("to", "")
    data = base64.b64decode(op.get("data") or "")
    if op["op"] == "splice":
        b, at = open(path, "rb").read(), op.get("at", 0)
        open(path, "wb").write(b[:at] + data + b[at + op.get("cut", 0):])
    elif op["op"] == "remove":
        shutil.rmtree(path) if os.path.isdir(path) else os.remove(path)
    elif op["op"] == "copy":
        shutil.copyfile(path, to)
    elif op["op"] == "write":
        os.makedirs(os.path.dirname(path), exist_ok=True)
        open(path, "wb").write(data)
    elif op["op"] == "truncate":
        os.truncate(path, op["size"])
    elif op["op"] == "symlink":
        os.rename(path, path + ".real")
        os.symlink(os.path.basename(path) + ".real", path)
    elif op["op"] == "link":
        os.link(path, to)
    elif op["op"] == "fifo":
        os.remove(path)
        os.mkfifo(path)


def vectors(v):
    x = {k: bytes.fromhex(s) for k, s in v["hex"].items()}
    need(x["key_commit"] == kdf(x["secret"], b"", M + b"key-commit"))
    need(x["c1"] == leaf(x["header_frame"]))
    need(x["ck0"] == kdf(x["secret"], x["c1"], M + b"chain-key"))
    need(x["ck1"] + x["rk0"] == expand(x["ck0"], M + b"record-key", 64))
    f = x["record_frame"]
    body = unseal(x["rk0"], bytes(12), f[8:], x["c1"] + f[:8])
    need(body.rstrip(b"\0") == v["body"].encode() + b"\n" and len(body) % 64 == 0)
    need(x["c2"] == node(x["c1"], leaf(f)) and x["c3"] == node(x["c2"], leaf(x["end_frame"])))
    for frame, n, c in (("commit1", 1, "c1"), ("commit2", 2, "c2"), ("commit3", 3, "c3")):
        f = x[frame]
        need(f[:16] == bytes([3, 0, 0, 0, 0, 0, 0, 104]) + n.to_bytes(8, "big") and f[16:48] == x[c])
        need(ed25519(x["signer"], M + b"commit\n" + x["strand"] + f[8:48], f[48:]))
    need(age_open(x["key_file"], v["identity"]) == v["key_file_text"].encode())
    edge = []
    for i, e in enumerate(v["entries"]):
        h, k = leaf(e.encode()), i
        while k & 1:
            h, k = node(edge.pop(), h), k >> 1
        edge.append(h)
        root = edge[-1]
        for y in edge[-2::-1]:
            root = node(y, root)
        need(root.hex() == v["roots"][i])
    note(v["checkpoint"], [v["vkey"]])


def main():
    vectors(json.load(open(sys.argv[1])))
    frozen = json.load(open(sys.argv[2]))
    for case in frozen["cases"]:
        with tempfile.TemporaryDirectory() as tmp:
            path = shutil.copytree(sys.argv[3], tmp + "/log")
            for op in case.get("ops") or []:
                change(op, path)
            log = Log(path, case, frozen)
            try:
                log.run()
            except (Bad, OSError, StopIteration, UnicodeDecodeError, json.JSONDecodeError) as e:
                log.at_least(30)
                print(case["name"], "-", e, file=sys.stderr)
            print(log.code, flush=True)


if __name__ == "__main__":
    main()
