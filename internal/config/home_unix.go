//go:build unix

package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

func userHome(environ []string) (string, error) {
	euid := os.Geteuid()
	return chooseHome(euid, lookupEnv(environ, "HOME"),
		func(path string) (int, error) {
			info, err := os.Stat(path)
			if err != nil {
				return 0, err
			}
			return owner(info)
		},
		func() (string, error) {
			u, err := user.LookupId(strconv.Itoa(euid))
			if err != nil {
				return "", err
			}
			return u.HomeDir, nil
		})
}

// chooseHome is the rule of [Home] as a pure function. The owner of
// a path is an error where it does not exist.
func chooseHome(euid int, env string, owner func(string) (int, error), database func() (string, error)) (string, error) {
	if filepath.IsAbs(env) {
		uid, err := owner(env)
		switch {
		case err == nil && uid == euid:
			return env, nil
		case err == nil && euid == 0:
			return "", Problem{
				Origin: Origin{Kind: FromEnv, Name: "HOME"},
				Msg:    fmt.Sprintf("%s belongs to another user (number %d), and root does not use it", quote(env), uid),
				err:    ErrForeignHome,
			}
		}
	}
	home, err := database()
	if err != nil || !filepath.IsAbs(home) {
		return "", ErrNoHome
	}
	return home, nil
}

// owner returns the number of the user who owns a file.
func owner(info fs.FileInfo) (int, error) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, errors.New("no owner known")
	}
	return int(st.Uid), nil
}

// foreign says why a file in the user's own folder is not to be trusted, "" if
// it may be. Group-writable is let pass: it is the default for files where
// every user has a group of their own.
func foreign(info fs.FileInfo) string {
	if uid, err := owner(info); err == nil && uid != os.Geteuid() && uid != 0 {
		return fmt.Sprintf("belongs to another user (number %d)", uid)
	}
	if info.Mode().Perm()&0o002 != 0 {
		return fmt.Sprintf("everybody can write to it (mode %04o)", info.Mode().Perm())
	}
	return ""
}

// exposed says why a folder is not private to the user, "" if it is.
func exposed(info fs.FileInfo) string {
	if uid, err := owner(info); err == nil && uid != os.Geteuid() {
		return fmt.Sprintf("belongs to another user (number %d)", uid)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return fmt.Sprintf("others can look into it (mode %04o, should be 0700)", info.Mode().Perm())
	}
	return ""
}
