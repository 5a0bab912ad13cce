"""The cryptography that verify.py needs, in plain arithmetic: Ed25519, X25519,
ChaCha20-Poly1305, HKDF. Test only: slow, and not constant in time."""
import base64, hashlib, hmac, struct

P = 2**255 - 19
L = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, P - 2, P) % P


class Bad(Exception):
    pass


def need(ok, why="malformed"):
    if not ok:
        raise Bad(why)


# Ed25519 (RFC 8032), extended coordinates.
def add(p, q):
    a, b = (p[1] - p[0]) * (q[1] - q[0]) % P, (p[1] + p[0]) * (q[1] + q[0]) % P
    c, d = 2 * p[3] * q[3] * D % P, 2 * p[2] * q[2] % P
    e, f, g, h = b - a, d - c, d + c, b + a
    return (e * f % P, g * h % P, f * g % P, e * h % P)


def mul(s, p):
    q = (0, 1, 1, 0)
    while s:
        if s & 1:
            q = add(q, p)
        p, s = add(p, p), s >> 1
    return q


def decode(b):
    y = int.from_bytes(b, "little")
    sign, y = y >> 255, y & (1 << 255) - 1
    need(y < P)
    x2 = (y * y - 1) * pow(D * y * y + 1, P - 2, P) % P
    x = pow(x2, (P + 3) // 8, P)
    if (x * x - x2) % P:
        x = x * pow(2, (P - 1) // 4, P) % P
    need((x * x - x2) % P == 0 and not (x == 0 and sign))
    if x & 1 != sign:
        x = P - x
    return (x, y, 1, x * y % P)


B = decode(bytes([0x58] + [0x66] * 31))


def ed25519(pub, msg, sig):
    try:
        a, r, s = decode(pub), decode(sig[:32]), int.from_bytes(sig[32:], "little")
    except Bad:
        return False
    if s >= L or len(sig) != 64:
        return False
    h = int.from_bytes(hashlib.sha512(sig[:32] + pub + msg).digest(), "little") % L
    p, q = mul(s, B), add(r, mul(h, a))
    return (p[0] * q[2] - q[0] * p[2]) % P == 0 and (p[1] * q[2] - q[1] * p[2]) % P == 0


def x25519(k, u):  # RFC 7748
    k = int.from_bytes(bytes([k[0] & 248]) + k[1:31] + bytes([k[31] & 127 | 64]), "little")
    x1 = int.from_bytes(u, "little") & (1 << 255) - 1
    x2, z2, x3, z3, swap = 1, 0, x1, 1, 0
    for t in range(254, -1, -1):
        bit = k >> t & 1
        if swap ^ bit:
            x2, z2, x3, z3 = x3, z3, x2, z2
        swap = bit
        a, b, c, d = x2 + z2, x2 - z2, x3 + z3, x3 - z3
        da, cb, aa, bb = d * a % P, c * b % P, a * a % P, b * b % P
        x3, z3, e = (da + cb) ** 2 % P, x1 * (da - cb) ** 2 % P, aa - bb
        x2, z2 = aa * bb % P, e * (aa + 121665 * e) % P
    if swap:
        x2, z2 = x3, z3
    return (x2 * pow(z2, P - 2, P) % P).to_bytes(32, "little")


def chacha(key, counter, nonce):  # RFC 8439
    s = list(struct.unpack("<16I", b"expand 32-byte k" + key + struct.pack("<I", counter) + nonce))
    w = s[:]
    rot = lambda v, n: (v << n | v >> 32 - n) & 0xFFFFFFFF
    for i in range(10):
        for a, b, c, d in ((0, 4, 8, 12), (1, 5, 9, 13), (2, 6, 10, 14), (3, 7, 11, 15), (0, 5, 10, 15), (1, 6, 11, 12), (2, 7, 8, 13), (3, 4, 9, 14)):
            for x, y, z, n in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
                w[x] = w[x] + w[y] & 0xFFFFFFFF
                w[z] = rot(w[z] ^ w[x], n)
    return struct.pack("<16I", *((x + y) & 0xFFFFFFFF for x, y in zip(w, s)))


def unseal(key, nonce, data, aad):
    data, tag = data[:-16], data[-16:]
    otk = chacha(key, 0, nonce)
    r = int.from_bytes(otk[:16], "little") & 0x0FFFFFFC0FFFFFFC0FFFFFFC0FFFFFFF
    pad = lambda b: b + bytes(-len(b) % 16)
    acc = 0
    text = pad(aad) + pad(data) + struct.pack("<QQ", len(aad), len(data))
    for i in range(0, len(text), 16):
        acc = (acc + int.from_bytes(text[i:i + 16] + b"\1", "little")) * r % (2**130 - 5)
    acc = acc + int.from_bytes(otk[16:32], "little") & (1 << 128) - 1
    need(hmac.compare_digest(acc.to_bytes(16, "little"), tag), "a record does not open")
    stream = b"".join(chacha(key, 1 + i, nonce) for i in range((len(data) + 63) // 64))
    return bytes(a ^ b for a, b in zip(data, stream))


def expand(prk, info, n):
    out = t = b""
    while len(out) < n:
        t = hmac.digest(prk, t + info + bytes([len(out) // 32 + 1]), "sha256")
        out += t
    return out[:n]


def kdf(ikm, salt, info):
    return expand(hmac.digest(salt or bytes(32), ikm, "sha256"), info, 32)


sha = lambda b: hashlib.sha256(b).digest()
leaf = lambda b: sha(b"\0" + b)
node = lambda a, b: sha(b"\1" + a + b)


def b64(s, n=32, strict=True):
    try:
        out = base64.b64decode(s + ("" if strict else "=" * (-len(s) % 4)), validate=True)
    except ValueError:
        raise Bad("base64")
    need(n in (None, len(out)) and base64.b64encode(out).decode().rstrip("=") == s.rstrip("="))
    return out
