package link

import (
	"fmt"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

func checkPeer(uc *net.UnixConn) error {
	rc, err := uc.SyscallConn()
	if err != nil {
		return err
	}
	var cred *unix.Xucred
	var credErr error
	if err := rc.Control(func(fd uintptr) {
		cred, credErr = unix.GetsockoptXucred(int(fd), unix.SOL_LOCAL, unix.LOCAL_PEERCRED)
	}); err != nil {
		return err
	}
	if credErr != nil {
		return fmt.Errorf("who is at the other end: %w", credErr)
	}
	return sameUser(int(cred.Uid), os.Geteuid())
}
