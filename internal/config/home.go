package config

import (
	"errors"
	"os"
	"path/filepath"
)

// ErrNoHome says that the machine knows no home for the user, as in a container
// that runs under a bare number. [Load] goes on without a file then.
var ErrNoHome = errors.New("this user has no home")

// ErrForeignHome says that root runs with the HOME of somebody else. Using it
// would leave files there that its owner cannot read, and obey settings that
// somebody else can write. [Load] goes on without a file then; say so.
var ErrForeignHome = errors.New("HOME belongs to another user")

// Home returns the folder in which everything of the user lives: PENSTOCK_HOME
// if it is set, else .penstock in the home of the effective user. It need not
// exist. The home is what HOME says if that belongs to the user, else what the
// user database says, since hosts start servers with very different
// environments and all must meet at one place. The errors are [ErrNoHome],
// [ErrForeignHome] and one for a PENSTOCK_HOME that is not absolute.
func Home(environ []string) (string, error) {
	if dir := lookupEnv(environ, envPrefix+"HOME"); dir != "" {
		if !filepath.IsAbs(dir) {
			// Relative to what? Hosts start servers in different folders.
			return "", Problem{Origin: Origin{Kind: FromEnv, Name: envPrefix + "HOME"}, Msg: quote(dir) + " is not an absolute path"}
		}
		return filepath.Clean(dir), nil
	}
	home, err := userHome(environ)
	if err != nil {
		return "", err
	}
	return filepath.Join(home, ".penstock"), nil
}

// FileName is the name of the settings file in the folder of [Home].
const FileName = "config.yaml"

// Path returns the file that [Load] reads, and whether it is there. It is ""
// where there is no home that may be used, see [ErrNoHome] and
// [ErrForeignHome].
func Path(src Source) (file string, found bool, err error) {
	file = src.File
	if file == "" {
		dir, err := Home(src.Environ)
		if errors.Is(err, ErrNoHome) || errors.Is(err, ErrForeignHome) {
			return "", false, nil
		}
		if err != nil {
			return "", false, err
		}
		file = filepath.Join(dir, FileName)
	}
	_, err = os.Stat(file)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return file, false, nil
	case err != nil:
		return file, false, Problem{Origin: Origin{Kind: FromFile, Name: file}, Msg: reason(err), err: err}
	}
	return file, true, nil
}

// CheckPlace reports what is wrong with the folder at dir: not a folder, owned
// by another user, or open to others. A folder that does not exist is fine; it
// is made when something is to be kept.
func CheckPlace(dir string) Problems {
	o := Origin{Kind: FromFile, Name: dir}
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return Problems{{Origin: o, Msg: reason(err), err: err}}
	case !info.IsDir():
		return Problems{{Origin: o, Msg: "not a folder"}}
	}
	if why := exposed(info); why != "" {
		return Problems{{Origin: o, Msg: why}}
	}
	return nil
}
